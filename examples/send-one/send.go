// Go 1.19 or newer, only its standard library. Stored once the status is 202.
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	body, err := json.Marshal(map[string]any{"event": "signup", "user_id": 42})
	if err != nil {
		log.Fatal(err)
	}
	request, err := http.NewRequest("POST", os.Getenv("PIPECTL_INGEST_URL"), bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PIPECTL_API_KEY"))
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		log.Fatal(response.Status)
	}
}
