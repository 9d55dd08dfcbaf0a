package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// Every cluster has a certificate authority of its own, and all of its listeners show a certificate from it. That is
// more than politeness: ports are chosen before they are bound, so one may end up with another cluster's component,
// and then a failed handshake is what keeps an API server out of a foreign etcd.
const (
	certificateAuthority = "ca"
	servingCertificate   = "serving"
	// supervisorCertificate proves to etcd and to the API server that the caller belongs here.
	supervisorCertificate = "supervisor"
	serviceAccountKey     = "service-account"
)

// certificateLife is longer than anybody leaves a playground running.
const certificateLife = 365 * 24 * time.Hour

func (h home) certificate(name string) string { return h.in("pki", name+".crt") }
func (h home) privateKey(name string) string  { return h.in("pki", name+".key") }

// identity is a certificate with its key, able to sign if it is the authority's.
type identity struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func writeCertificates(home home) error {
	if err := os.MkdirAll(home.in("pki"), 0o700); err != nil {
		return fmt.Errorf("creating the directory for certificates: %w", err)
	}
	authority, err := issue(home, certificateAuthority, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "control-plane-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
	if err != nil {
		return err
	}
	if _, err := issue(home, servingCertificate, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "control-plane"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, authority); err != nil {
		return err
	}
	if _, err := issue(home, supervisorCertificate, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "supervisor", Organization: []string{adminGroup}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority); err != nil {
		return err
	}
	_, err = writeKey(home, serviceAccountKey)
	return err
}

// issue makes a key and a certificate for it, signed by the authority, or by itself where there is none yet.
func issue(home home, name string, template *x509.Certificate, authority *identity) (*identity, error) {
	key, err := writeKey(home, name)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number for the certificate of %s: %w", name, err)
	}
	template.SerialNumber = serial
	// An hour back, for clocks that are set while a cluster starts.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(certificateLife)
	signer := authority
	if signer == nil {
		signer = &identity{certificate: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.certificate, &key.PublicKey, signer.key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back the certificate of %s: %w", name, err)
	}
	return &identity{certificate, key}, writePEM(home.certificate(name), "CERTIFICATE", der)
}

func writeKey(home home, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of %s: %w", name, err)
	}
	return key, writePEM(home.privateKey(name), "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("writing a %s: %w", kind, err)
	}
	return nil
}
