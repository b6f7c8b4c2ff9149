// Receives what pipectl delivers, if it is genuine:  PIPECTL_SIGNING_SECRET=whsec_… PORT=8000 go run receive.go
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	toleranceSeconds = 300
	maxBodyBytes     = 64 << 20
)

// isGenuine says whether this body, the bytes as they arrived, was signed with this key less than five minutes ago.
func isGenuine(header http.Header, body, key []byte) bool {
	id, timestamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil || math.Abs(float64(time.Now().Unix()-seconds)) > toleranceSeconds {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	// During a change of the secret there are several signatures.
	for _, given := range strings.Split(header.Get("Webhook-Signature"), " ") {
		if hmac.Equal([]byte(given), expected) {
			return true
		}
	}
	return false
}

func main() {
	secret := strings.TrimPrefix(os.Getenv("PIPECTL_SIGNING_SECRET"), "whsec_")
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || len(key) == 0 {
		log.Fatal("PIPECTL_SIGNING_SECRET must be set to whsec_ and base64")
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "8000"
	}
	receive := func(response http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBodyBytes))
		if err != nil {
			response.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if !isGenuine(request.Header, body, key) {
			response.WriteHeader(http.StatusUnauthorized)
			return
		}
		// Store the records here, then respond. A repeated request has the same webhook-id.
		fmt.Println(request.Header.Get("Webhook-Id"), string(body))
		response.WriteHeader(http.StatusNoContent)
	}
	server := http.Server{Addr: "127.0.0.1:" + port, Handler: http.HandlerFunc(receive), ReadTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}
