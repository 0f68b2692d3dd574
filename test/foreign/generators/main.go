// What the client does that oapi-codegen makes: a directory, a file in a folder of it, its events.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
)

func main() {
	pool := x509.NewCertPool()
	certificate, _ := os.ReadFile(os.Getenv("CA"))
	pool.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("KEY"))
		return nil
	}
	client, err := NewClientWithResponses(
		os.Getenv("API"), WithHTTPClient(&http.Client{Transport: transport}), WithRequestEditorFn(authorize),
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	made, err := client.CreateDirectoryWithResponse(ctx, nil, CreateDirectoryJSONRequestBody{Directory: CreateDirectory{Name: "Go"}})
	if err != nil || made.JSON201 == nil {
		log.Fatal(made, err)
	}
	put, err := client.PutFileWithBodyWithResponse(
		ctx, made.JSON201.Data.Id, "out/x", nil, "application/octet-stream", strings.NewReader("go"),
	)
	if err != nil || put.JSON201 == nil {
		log.Fatal(put, err)
	}
	var change UpdateDirectoryJSONBody_Directory
	description := "changed"
	if err := change.FromBasicFields(BasicFields{Description: &description}); err != nil {
		log.Fatal(err)
	}
	changed, err := client.UpdateDirectoryWithResponse(ctx, made.JSON201.Data.Id, UpdateDirectoryJSONRequestBody{Directory: change})
	if err != nil || changed.JSON200 == nil {
		log.Fatal(changed, err)
	}
	events, err := client.ListEventsWithResponse(ctx, nil)
	if err != nil || events.JSON200 == nil {
		log.Fatal(events, err)
	}
	fmt.Println(put.JSON201.Data.Path, *changed.JSON200.Data.Description, len(events.JSON200.Data))
}
