// A receiver of berth's webhooks: checks each, answers at once, and works afterwards.
//
//	WEBHOOK_SECRET=… PORT=9000 go run .
//
// WEBHOOK_SECRET is the secret of the account's webhook. WEBHOOK_SECRETS has those of directories with one of their own, as
// JSON: {"<directory id>": "<secret>"}.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

type event struct {
	Event       string `json:"event"`
	DirectoryID string `json:"directory_id"`
	Filename    string `json:"filename"`
	SizeBytes   int64  `json:"size_bytes"`
	// There is no file behind a test.
	Test bool `json:"test"`
}

const (
	largest   = 1 << 20
	tolerance = 5 * time.Minute
)

func main() {
	shared, secrets := os.Getenv("WEBHOOK_SECRET"), map[string]string{}
	if err := json.Unmarshal([]byte(or(os.Getenv("WEBHOOK_SECRETS"), "{}")), &secrets); err != nil {
		log.Fatal("WEBHOOK_SECRETS: ", err)
	}
	if shared == "" && len(secrets) == 0 {
		log.Fatal("neither WEBHOOK_SECRET nor WEBHOOK_SECRETS is set")
	}
	jobs := make(chan event, 1000)
	go func() {
		for job := range jobs {
			fmt.Println("uploaded", job.Filename)
		}
	}()
	// The webhooks that were taken. Keep their ids in your database instead: memory forgets them at a restart.
	var taken sync.Map
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		// The directory in the body can be trusted only after the signature has been verified with its secret.
		var job event
		isRead := json.Unmarshal(body, &job) == nil
		secret := or(secrets[job.DirectoryID], shared)
		// Over the raw body: JSON that was parsed and written again has other bytes.
		if !isRead || secret == "" || !isSigned(body, r.Header, signingKey(secret)) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		// berth waits for 5 s, and then repeats the webhook.
		w.WriteHeader(http.StatusNoContent)
		if _, isKnown := taken.LoadOrStore(r.Header.Get("Webhook-Id"), true); !isKnown && job.Event == "file.uploaded" && !job.Test {
			jobs <- job
		}
	})
	server := &http.Server{Addr: ":" + or(os.Getenv("PORT"), "9000"), ReadTimeout: 10 * time.Second}
	fmt.Println("listening")
	log.Fatal(server.ListenAndServe())
}

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// isSigned says whether webhook-signature is right (Standard Webhooks) and webhook-timestamp near this machine's clock.
func isSigned(body []byte, header http.Header, key []byte) bool {
	timestamp := header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", header.Get("Webhook-Id"), timestamp, body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	// There are two while a secret is being replaced.
	for _, signature := range strings.Split(header.Get("Webhook-Signature"), " ") {
		if hmac.Equal([]byte(signature), expected) {
			return true
		}
	}
	return false
}

// Base64 as Standard Webhooks has it, or berth's older secrets in the URL alphabet. Any other text is the key itself.
var base64Text = regexp.MustCompile(`^(?:[A-Za-z0-9+/]+={0,2}|[A-Za-z0-9_-]{32})$`)

func signingKey(secret string) []byte {
	text := strings.TrimPrefix(secret, "whsec_")
	if base64Text.MatchString(text) {
		digits := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		if key, err := base64.RawStdEncoding.DecodeString(digits); err == nil {
			return key
		}
	}
	return []byte(secret)
}
