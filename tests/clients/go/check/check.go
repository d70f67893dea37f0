// Package check counts what a client program verified and reports it group by group.
package check

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
)

// Suite is one run of one client; its methods are for one goroutine.
type Suite struct {
	Port    int
	Cluster bool
	// TLS is what connections are made with; nil for plain ones.
	TLS *tls.Config
	// IsServerError tells an error reply from a broken connection, in the library's own terms.
	IsServerError func(error) bool

	module string
	passed int
	failed []string
}

// New reads the command line; module is the import path of the library under test. CLIENT_TLS_CA names the authority of
// a server that speaks TLS.
func New(module string) *Suite {
	suite := &Suite{module: module}
	flag.IntVar(&suite.Port, "port", 0, "port of the server on 127.0.0.1")
	flag.BoolVar(&suite.Cluster, "cluster", false, "use the cluster client")
	flag.Parse()
	if suite.Port == 0 {
		fmt.Fprintln(os.Stderr, "--port is missing")
		os.Exit(2)
	}
	if authority := os.Getenv("CLIENT_TLS_CA"); authority != "" {
		certificate, err := os.ReadFile(authority)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		suite.TLS = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
		suite.TLS.RootCAs.AppendCertsFromPEM(certificate)
	}
	return suite
}

// Addr is the server's host and port.
func (s *Suite) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// PortDirective is the name of the directive that holds the server's port.
func (s *Suite) PortDirective() string {
	if s.TLS != nil {
		return "tls-port"
	}
	return "port"
}

// True holds when the condition does.
func (s *Suite) True(what string, holds bool) {
	if holds {
		s.passed++
	} else {
		s.failed = append(s.failed, what)
	}
}

// Equal holds when got has the type and value of want.
func (s *Suite) Equal(what string, got, want any) {
	s.True(fmt.Sprintf("%s: got %.300q, want %.300q", what, fmt.Sprint(got), fmt.Sprint(want)), reflect.DeepEqual(got, want))
}

// Is takes a call's result and error: it holds when there is no error and the result equals want.
func (s *Suite) Is(what string, want any) func(got any, err error) {
	return func(got any, err error) {
		if err != nil {
			s.failed = append(s.failed, fmt.Sprintf("%s: %T %v", what, err, err))
			return
		}
		s.Equal(what, got, want)
	}
}

// Within holds when the duration lies in (above, most].
func (s *Suite) Within(what string, above, most time.Duration) func(time.Duration, error) {
	return func(got time.Duration, err error) {
		s.True(fmt.Sprintf("%s: got %v, %v", what, got, err), err == nil && got > above && got <= most)
	}
}

// Misses holds when the library reports that there is no value.
func (s *Suite) Misses(what string, missing error) func(any, error) {
	return func(got any, err error) {
		s.True(fmt.Sprintf("%s: got %v, %v", what, got, err), err == missing)
	}
}

// Fails holds when the library reports a server error that contains text.
func (s *Suite) Fails(what, text string) func(any, error) {
	return func(got any, err error) {
		holds := err != nil && s.IsServerError(err) && strings.Contains(err.Error(), text)
		s.True(fmt.Sprintf("%s: got %v, %T %v", what, got, err, err), holds)
	}
}

// Group runs one group and prints its line; a panic is a failure.
func (s *Suite) Group(name string, group func()) {
	passed, failed := s.passed, len(s.failed)
	func() {
		defer func() {
			if broken := recover(); broken != nil {
				s.failed = append(s.failed, fmt.Sprintf("panic: %v\n%s", broken, debug.Stack()))
			}
		}()
		group()
	}()
	fmt.Printf("%s: %d passed, %d failed\n", name, s.passed-passed, len(s.failed)-failed)
	for _, failure := range s.failed[failed:] {
		fmt.Println("  FAIL", failure)
	}
	if passed == 0 && len(s.failed) > 0 {
		s.Finish() // The first group failed: each further check would only wait for its retries.
	}
}

// Finish prints the verdict and ends the process.
func (s *Suite) Finish() {
	mode := "alone"
	if s.Cluster {
		mode = "cluster"
	}
	name := fmt.Sprintf("client go-redis %s %s", strings.TrimSuffix(version(s.module), "+incompatible"), mode)
	if len(s.failed) > 0 || s.passed == 0 {
		fmt.Printf("%s: %d checks FAILED\n", name, len(s.failed))
		os.Exit(1)
	}
	fmt.Printf("%s: %d checks passed\n", name, s.passed)
	os.Exit(0)
}

// version is the one this program was linked with.
func version(module string) string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range build.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "unknown"
}
