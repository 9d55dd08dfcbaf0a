package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// prober asks components whether they work. It trusts this cluster's certificates only, so a stranger who got one of
// our ports cannot answer for our component.
type prober struct{ client *http.Client }

// Long enough for a machine with more work than cores; a hung answer must still end in another question.
const probeLimit = 5 * time.Second

func newProber(home home) (*prober, error) {
	pem, err := os.ReadFile(home.certificate(certificateAuthority))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", home.certificate(certificateAuthority))
	}
	own, err := tls.LoadX509KeyPair(home.certificate(supervisorCertificate), home.privateKey(supervisorCertificate))
	if err != nil {
		return nil, fmt.Errorf("reading the supervisor's certificate: %w", err)
	}
	return &prober{&http.Client{
		Timeout: probeLimit,
		Transport: &http.Transport{
			Proxy:           nil,
			TLSClientConfig: &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{own}},
		},
	}}, nil
}

// ask returns nil if the address answers 200, and the reason otherwise.
func (p *prober) ask(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s", response.Status, body)
	}
	return nil
}
