// Uploads a folder as `rclone copy` does, with rclone's own packages: only what SFTP needs is compiled.
//
//	PASSWORD=… rclone-copy PORT USER FOLDER
package main

import (
	"context"
	"fmt"
	"os"

	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/sftp"
	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/config/obscure"
	"github.com/rclone/rclone/fs/sync"
)

func main() {
	if err := copyFolder(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func copyFolder(args []string) error {
	port, user, folder := args[0], args[1], args[2]
	ctx := context.Background()
	source, err := fs.NewFs(ctx, folder)
	if err != nil {
		return err
	}
	password := obscure.MustObscure(os.Getenv("PASSWORD"))
	target, err := fs.NewFs(ctx, fmt.Sprintf(
		":sftp,host=127.0.0.1,port=%s,user=%s,pass=%s,shell_type=none,md5sum_command=none,sha1sum_command=none:",
		port, user, password))
	if err != nil {
		return err
	}
	return sync.CopyDir(ctx, target, source, false)
}
