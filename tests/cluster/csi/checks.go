package main

import (
	"context"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// checked refuses a request in which an id is missing or is no file name, or a path is missing.
func checked(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !strings.HasSuffix(info.FullMethod, "/ListSnapshots") { // there, an id is a filter
		if r, ok := req.(interface{ GetName() string }); ok && !isFileName(r.GetName()) {
			return nil, invalid("bad name %q", r.GetName())
		}
		if r, ok := req.(interface{ GetVolumeId() string }); ok && !isFileName(r.GetVolumeId()) {
			return nil, invalid("bad volume id %q", r.GetVolumeId())
		}
		if r, ok := req.(interface{ GetSourceVolumeId() string }); ok && !isFileName(r.GetSourceVolumeId()) {
			return nil, invalid("bad source volume id %q", r.GetSourceVolumeId())
		}
		if r, ok := req.(interface{ GetSnapshotId() string }); ok && !isFileName(r.GetSnapshotId()) {
			return nil, invalid("bad snapshot id %q", r.GetSnapshotId())
		}
	}
	if r, ok := req.(interface{ GetTargetPath() string }); ok && r.GetTargetPath() == "" {
		return nil, invalid("no target path")
	}
	if r, ok := req.(interface{ GetVolumePath() string }); ok && r.GetVolumePath() == "" {
		return nil, invalid("no volume path")
	}
	return next(ctx, req)
}

func isFileName(id string) bool {
	return id != "" && id != "." && id != ".." && !strings.Contains(id, "/")
}

// checkCapabilities refuses what a mounted volume of one node cannot do.
func checkCapabilities(wanted ...*csi.VolumeCapability) error {
	if len(wanted) == 0 {
		return invalid("no volume capability")
	}
	for _, c := range wanted {
		if c == nil {
			return invalid("no volume capability")
		}
		if c.GetBlock() != nil {
			return invalid("block volumes are not supported")
		}
		switch mode := c.GetAccessMode().GetMode(); mode {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		default:
			return invalid("access mode %v: a volume is on one node", mode)
		}
	}
	return nil
}

// checkSize chooses a size within the range that was asked for.
func checkSize(wanted *csi.CapacityRange) (int64, error) {
	size := wanted.GetRequiredBytes()
	if size == 0 {
		size = defaultSize
	}
	size = max(size, minimumSize)
	if limit := wanted.GetLimitBytes(); limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange, "%d bytes are needed, the limit is %d", size, limit)
	}
	return size, nil
}
