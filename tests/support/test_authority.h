// A certificate authority that lives as long as a test, and TLS servers of it.
#pragma once

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <csignal>
#include <future>
#include <memory>
#include <string>

#include "framework/base/result.h"
#include "tests/support/loopback_server.h"

namespace upgrade_gate::testing {

class TestAuthority {
 public:
  TestAuthority() : key_(NewKey()) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to clients that have hung up
    certificate_ = NewCertificate("test authority", key_);
    Extend(certificate_, NID_basic_constraints, "critical,CA:TRUE");
    Extend(certificate_, NID_key_usage, "critical,keyCertSign");
    UG_CHECK(X509_sign(certificate_.get(), key_.get(), EVP_sha256()) > 0);
  }

  std::string pem() const {
    return Pem([&](BIO* out) { return PEM_write_bio_X509(out, certificate_.get()); });
  }

  // A certificate of this authority and its key, for a client.
  struct Pair {
    std::string certificate, key;
  };
  Pair IssueToClient(const std::string& name) const {
    const Key key = NewKey();
    const Certificate leaf = Issue(name, key);
    return {Pem([&](BIO* out) { return PEM_write_bio_X509(out, leaf.get()); }), Pem([&](BIO* out) {
              return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr,
                                              nullptr);
            })};
  }

  enum class Clients { kAny, kOfThisAuthority };
  // A handler that answers one request of each connection over TLS, with a
  // certificate for this IP address; `rest` of the answer follows once `go` says
  // so. It outlives the authority.
  LoopbackServer::Handler Serve(const std::string& address, const std::string& answer,
                                const std::shared_future<void>& go = {},
                                const std::string& rest = "",
                                Clients clients = Clients::kAny) const {
    const Key key = NewKey();
    const Certificate leaf = Issue(address, key, "IP:" + address);
    const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    if (clients == Clients::kOfThisAuthority) {
      UG_CHECK(X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), certificate_.get()) == 1);
      SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    UG_CHECK(SSL_CTX_use_certificate(context.get(), leaf.get()) == 1 &&
             SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
    return [context, answer, go, rest](Connection& connection) {
      const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
      SSL_set_fd(ssl.get(), connection.fd());
      char request[4096];
      if (SSL_accept(ssl.get()) == 1 && SSL_read(ssl.get(), request, sizeof request) > 0) {
        SSL_write(ssl.get(), answer.data(), static_cast<int>(answer.size()));
        if (go.valid()) {
          go.wait();
          SSL_write(ssl.get(), rest.data(), static_cast<int>(rest.size()));
        }
        SSL_shutdown(ssl.get());
      }
      ERR_clear_error();
    };
  }

 private:
  using Key = std::shared_ptr<EVP_PKEY>;
  using Certificate = std::shared_ptr<X509>;

  template <typename Write>
  static std::string Pem(const Write& write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), BIO_free);
    UG_CHECK(write(memory.get()) == 1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &data);
    return {data, static_cast<std::size_t>(size)};
  }

  Certificate Issue(const std::string& name, const Key& key,
                    const std::string& alternative = "") const {
    Certificate leaf = NewCertificate(name, key);
    X509_set_issuer_name(leaf.get(), X509_get_subject_name(certificate_.get()));
    if (!alternative.empty()) Extend(leaf, NID_subject_alt_name, alternative);
    UG_CHECK(X509_sign(leaf.get(), key_.get(), EVP_sha256()) > 0);
    return leaf;
  }

  static Key NewKey() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }

  static Certificate NewCertificate(const std::string& name, const Key& key) {
    static long serial = 0;
    Certificate made(X509_new(), X509_free);
    X509_set_version(made.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
    X509_set_pubkey(made.get(), key.get());
    X509_NAME* const subject = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(made.get(), subject);
    return made;
  }

  static void Extend(const Certificate& certificate, int kind, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    UG_CHECK(extension != nullptr && X509_add_ext(certificate.get(), extension, -1) == 1);
    X509_EXTENSION_free(extension);
  }

  Key key_;
  Certificate certificate_;
};

}  // namespace upgrade_gate::testing
