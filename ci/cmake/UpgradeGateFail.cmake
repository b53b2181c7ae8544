# cmake -DMESSAGE=… -P UpgradeGateFail.cmake: prints the message and fails.
message(NOTICE "${MESSAGE}")
message(FATAL_ERROR "No gate of this plan can run.")
