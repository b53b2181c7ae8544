# cmake -DMESSAGE=… -DRUN=… -P UpgradeGateFail.cmake: prints the message and fails.
# What gates left in the run's folder before is of another binary or plan.
file(REMOVE_RECURSE "${RUN}/fragments")
message(NOTICE "${MESSAGE}")
message(FATAL_ERROR "No gate of this plan can run.")
