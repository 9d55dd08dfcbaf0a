package main

import (
	"bytes"
	"crypto/rand"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminGroup may do everything; RBAC never asks about its members.
const adminGroup = "system:masters"

// account is somebody with a token and a kubeconfig. Users of the form system:… get their rights from the roles that
// the API server creates for its own components.
type account struct{ name, user, group string }

func accounts() []account {
	return []account{
		{name: "admin", user: "admin", group: adminGroup},
		{name: controllerManagerName, user: "system:kube-controller-manager"},
		{name: schedulerName, user: "system:kube-scheduler"},
		{name: kwokName, user: "kwok", group: adminGroup},
	}
}

func (h home) tokens() string { return h.in("tokens.csv") }

// writeCredentials draws a token for every account and writes the list of them for the API server and a kubeconfig
// for the account itself.
func writeCredentials(home home, server string) error {
	authority, err := os.ReadFile(home.certificate(certificateAuthority))
	if err != nil {
		return fmt.Errorf("reading the certificate authority: %w", err)
	}
	var list bytes.Buffer
	rows := csv.NewWriter(&list)
	for _, account := range accounts() {
		var secret [16]byte
		_, _ = rand.Read(secret[:]) // It never fails: the runtime ends the process instead.
		token := hex.EncodeToString(secret[:])
		_ = rows.Write([]string{token, account.user, account.user, account.group})
		if err := writeKubeconfig(home.kubeconfig(account.name), server, account.user, token, authority); err != nil {
			return err
		}
	}
	rows.Flush()
	if err := os.WriteFile(home.tokens(), list.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing the list of tokens: %w", err)
	}
	return nil
}

func writeKubeconfig(path, server, user, token string, authority []byte) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["dovetail"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["dovetail"] = &clientcmdapi.Context{Cluster: "dovetail", AuthInfo: user}
	config.CurrentContext = "dovetail"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return nil
}
