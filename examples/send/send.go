// Sends the lines of stdin, one JSON object each, to a pipe:  go run send.go < records.ndjson
//
// PIPECTL_INGEST_URL is https://…/v1/ingest/PIPE_ID, PIPECTL_API_KEY a key with the scope ingest.
// Exits with 0 once every record is stored, otherwise with 1. Go 1.19 or newer, only its standard library.
package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	mathrand "math/rand"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	batchRecords  = 500
	batchBytes    = 1_000_000
	largestRecord = 10 << 20
	attempts      = 8
	longestWait   = 5 * time.Minute
)

var client = http.Client{Timeout: 10 * time.Second}

func main() {
	sent, err := run(os.Getenv("PIPECTL_INGEST_URL"), os.Getenv("PIPECTL_API_KEY"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "send:", err)
		os.Exit(1)
	}
	fmt.Println(sent, "records stored")
}

func run(url, apiKey string) (sent int, err error) {
	if url == "" || apiKey == "" {
		return 0, fmt.Errorf("PIPECTL_INGEST_URL and PIPECTL_API_KEY must be set")
	}
	mathrand.Seed(time.Now().UnixNano())
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, largestRecord)
	var batch bytes.Buffer
	records := 0
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		batch.Write(lines.Bytes())
		batch.WriteByte('\n')
		records++
		if records == batchRecords || batch.Len() >= batchBytes {
			if err := sendBatch(url, apiKey, batch.Bytes()); err != nil {
				return sent, err
			}
			sent += records
			records = 0
			batch.Reset()
		}
	}
	if err := lines.Err(); err != nil {
		return sent, err
	}
	if records > 0 {
		if err := sendBatch(url, apiKey, batch.Bytes()); err != nil {
			return sent, err
		}
	}
	return sent + records, nil
}

func sendBatch(url, apiKey string, body []byte) error {
	// The same key in every attempt: a batch whose response was lost is not stored again.
	key := make([]byte, 16)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		status, text, retryAfter := post(url, apiKey, hex.EncodeToString(key), body)
		if status == http.StatusAccepted {
			return nil
		}
		mayPass := status == 0 || status == 408 || status == 429 || status >= 500
		if !mayPass || attempt == attempts-1 {
			return fmt.Errorf("%d %s", status, text)
		}
		if retryAfter == 0 {
			backoff := math.Pow(2, float64(attempt)) * (0.5 + mathrand.Float64()/2)
			retryAfter = time.Duration(backoff * float64(time.Second))
		}
		if retryAfter > longestWait {
			retryAfter = longestWait
		}
		time.Sleep(retryAfter)
	}
}

// post returns status 0 if there was no response.
func post(url, apiKey, idempotencyKey string, body []byte) (int, string, time.Duration) {
	request, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		return 400, err.Error(), 0
	}
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Idempotency-Key", idempotencyKey)
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error(), 0
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 500))
	if err != nil {
		return 0, err.Error(), 0
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return response.StatusCode, string(text), time.Duration(seconds) * time.Second
}
