// Go's net/http with its own router.
package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

func bearer(field string) string {
	words := strings.Fields(field)
	if len(words) == 2 && strings.EqualFold(words[0], "bearer") {
		return words[1]
	}
	return ""
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimRight(strings.ToLower(host), ".")
}

func main() {
	for _, pattern := range []string{
		"/login", "/v1/mail:send", "/users/@me", "/users/{part}", "/admin/{part...}",
	} {
		http.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			// Trailers count as fields to whoever merges them.
			for name, values := range r.Trailer {
				if len(values) > 0 {
					r.Header[name] = values
				}
			}
			session := ""
			if cookie, err := r.Cookie("sid"); err == nil {
				session = cookie.Value
			}
			_ = json.NewEncoder(w).Encode(map[string]string{
				"route":   pattern + " " + r.PathValue("part"),
				"method":  r.Method,
				"key":     r.Header.Get("X-Api-Key"),
				"bearer":  bearer(r.Header.Get("Authorization")),
				"user":    r.URL.Query().Get("user"),
				"session": session,
				"host":    hostname(r.Host),
			})
		})
	}
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[1], nil); err != nil {
		panic(err)
	}
}
