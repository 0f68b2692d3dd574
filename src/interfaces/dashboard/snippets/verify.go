package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// Verify needs both secrets, the old one and the new one, while you replace the secret.
func Verify(rawBody []byte, header string, secrets ...string) bool {
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(rawBody)
		expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
		if hmac.Equal([]byte(header), []byte(expected)) {
			return true
		}
	}
	return false
}
