package cli

import (
	"errors"
	"fmt"
	"path/filepath"
)

// proxyOff, as the URL of a proxy, removes the stored proxy.
const proxyOff = "none"

// setProxy sets the proxy to the hub from the flags.
func (s *setup) setProxy(f runFlags) (err error) {
	switch {
	case f.proxyURL != "" && f.proxyFile != "":
		return errors.New("--proxy-url and --proxy-file: give one of them")
	case f.proxyURL == proxyOff:
		s.ProxyURL, s.ProxyFile = "", ""
	case f.proxyURL != "":
		s.ProxyURL, s.ProxyFile = f.proxyURL, ""
	case f.proxyFile != "":
		s.ProxyURL = ""
		if s.ProxyFile, err = filepath.Abs(f.proxyFile); err != nil {
			return fmt.Errorf("--proxy-file: %w", err)
		}
	}
	return nil
}
