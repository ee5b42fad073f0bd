package main

import (
	"context"
	"os"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node, AccessibleTopology: d.topology()}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	resp := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		// The group is given here; kubelet would make every file group-writable.
		csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := checkCapabilities(r.VolumeCapability); err != nil {
		return nil, err
	}
	file := d.store.volume(r.VolumeId)
	if !exists(file) {
		return nil, status.Errorf(codes.NotFound, "no volume %s on %s", r.VolumeId, d.node)
	}
	mounted, _, err := mountsOf(file)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if slices.Contains(mounted, r.TargetPath) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	mode := r.VolumeCapability.GetAccessMode().GetMode()
	if mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER && len(mounted) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is in use at %v", r.VolumeId, mounted)
	}
	if err := publish(file, r, mounted); err != nil {
		unix.Unmount(r.TargetPath, 0)
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func publish(file string, r *csi.NodePublishVolumeRequest, mounted []string) error {
	if err := mountVolume(file, r.TargetPath, mounted); err != nil {
		return err
	}
	if group := r.VolumeCapability.GetMount().GetVolumeMountGroup(); group != "" {
		gid, err := strconv.Atoi(group)
		if err != nil {
			return err
		}
		if err := giveToGroup(r.TargetPath, gid); err != nil {
			return err
		}
	}
	if r.Readonly {
		return makeReadOnly(r.TargetPath)
	}
	return nil
}

func (d *driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unmount(r.TargetPath); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (d *driver) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	mounted, _, err := mountsOf(d.store.volume(r.VolumeId))
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if !slices.Contains(mounted, r.VolumePath) {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", r.VolumeId, r.VolumePath)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(r.VolumePath, &stat); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
		Unit:      csi.VolumeUsage_BYTES,
		Total:     int64(stat.Blocks) * stat.Bsize,
		Used:      int64(stat.Blocks-stat.Bfree) * stat.Bsize,
		Available: int64(stat.Bavail) * stat.Bsize,
	}}}, nil
}

// NodeExpandVolume lengthens the file, has the loop device notice, and lets the
// file system take the room, all while it is in use, also when it is full.
func (d *driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	file := d.store.volume(r.VolumeId)
	if !exists(file) {
		return nil, status.Errorf(codes.NotFound, "no volume %s on %s", r.VolumeId, d.node)
	}
	mounted, device, err := mountsOf(file)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if len(mounted) == 0 {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted", r.VolumeId)
	}
	old, size := sizeOf(file), r.CapacityRange.GetRequiredBytes()
	if size > old {
		free, err := d.store.free()
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		if size-old > free {
			return nil, status.Errorf(codes.OutOfRange, "%d bytes more wanted, %d free on %s", size-old, free, d.node)
		}
		if err := os.Truncate(file, size); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	if err := run("losetup", "--set-capacity", device); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if err := growFileSystem(mounted[0]); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: max(size, old)}, nil
}
