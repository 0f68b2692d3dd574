// Uploads a folder as `rclone copy` does, with rclone's own packages: only what SFTP needs is compiled.
//
//	rclone-copy HOST PORT USER KEYFILE FROM TO
package main

import (
	"context"
	"fmt"
	"os"

	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/sftp"
	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/sync"
)

func main() {
	if err := copyFolder(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func copyFolder(args []string) error {
	host, port, user, key, from, to := args[0], args[1], args[2], args[3], args[4], args[5]
	ctx := context.Background()
	source, err := fs.NewFs(ctx, from)
	if err != nil {
		return err
	}
	remote := fmt.Sprintf(":sftp,host=%s,port=%s,user=%s,key_file='%s',shell_type=none,md5sum_command=none,sha1sum_command=none:%s",
		host, port, user, key, to)
	target, err := fs.NewFs(ctx, remote)
	if err != nil {
		return err
	}
	return sync.CopyDir(ctx, target, source, false)
}
