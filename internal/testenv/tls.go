package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TLSFiles are the paths of the PEM files of a cluster that was started with
// [TLS]. The server's certificate is for 127.0.0.1, ::1 and localhost.
type TLSFiles struct {
	CA         string
	ServerCert string
	ServerKey  string
	ClientCert string
	ClientKey  string
}

// TLSFiles returns the files of a cluster that was started with [TLS].
func (c *Cluster) TLSFiles() TLSFiles { return c.s.files }

// TLSConfig returns what a client of this cluster needs, or nil for a cluster
// without [TLS]. Each call returns a new one, which the caller may change.
func (c *Cluster) TLSConfig() *tls.Config {
	c.tb.Helper()
	if !c.s.cfg.tls {
		return nil
	}
	conf, err := c.s.files.clientConfig()
	if err != nil {
		c.tb.Fatalf("testenv: %v", err)
	}
	return conf
}

func (f TLSFiles) clientConfig() (*tls.Config, error) {
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA file has no certificate")
	}
	cert, err := tls.LoadX509KeyPair(f.ClientCert, f.ClientKey)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// authority signs the certificates of one cluster.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func writeTLS(dir string) (TLSFiles, error) {
	files, err := writeTLSFiles(dir)
	if err != nil {
		return TLSFiles{}, fmt.Errorf("testenv: make the certificates: %w", err)
	}
	return files, nil
}

func writeTLSFiles(dir string) (TLSFiles, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return TLSFiles{}, err
	}
	a := &authority{dir: dir}
	var files TLSFiles
	var err error
	root := template("coord testenv CA")
	root.IsCA, root.BasicConstraintsValid = true, true
	root.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	if files.CA, _, err = a.issue("ca", root); err != nil {
		return TLSFiles{}, err
	}
	server := template("coord testenv server")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	server.DNSNames = []string{"localhost"}
	// etcd's HTTP side connects to its gRPC side as a client with the same
	// certificate.
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if files.ServerCert, files.ServerKey, err = a.issue("server", server); err != nil {
		return TLSFiles{}, err
	}
	client := template("coord testenv client")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if files.ClientCert, files.ClientKey, err = a.issue("client", client); err != nil {
		return TLSFiles{}, err
	}
	return files, nil
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(24 * time.Hour),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

// issue makes a key and a certificate for it and writes both. The first
// certificate signs itself and all later ones.
func (a *authority) issue(name string, tmpl *x509.Certificate) (certPath, keyPath string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return "", "", err
	}
	if a.cert == nil {
		a.cert, a.key = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return "", "", err
	}
	if tmpl == a.cert {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			return "", "", err
		}
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", err
	}
	certPath = filepath.Join(a.dir, name+".pem")
	keyPath = filepath.Join(a.dir, name+"-key.pem")
	if err := writePEM(certPath, "CERTIFICATE", der); err != nil {
		return "", "", err
	}
	return certPath, keyPath, writePEM(keyPath, "PRIVATE KEY", keyDER)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
