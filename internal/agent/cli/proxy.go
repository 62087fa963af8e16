package cli

import (
	"errors"
	"fmt"
	"path/filepath"
)

// proxyOff in the place of a proxy's URL ends that one is used.
const proxyOff = "none"

// setProxy takes over what the flags say of the proxy to the hub.
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
