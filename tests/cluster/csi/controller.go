package main

import (
	"context"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The side-cars run once a node (distributed provisioning and snapshotting), so
// this service only ever answers for its own node. It offers no expansion: the
// resizer cannot tell which node holds a volume. The node service grows it.
func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

func (d *driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{driverName + "/node": d.node}}
}

func (d *driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := checkCapabilities(r.VolumeCapabilities...); err != nil {
		return nil, err
	}
	size, err := checkSize(r.CapacityRange)
	if err != nil {
		return nil, err
	}
	source := r.VolumeContentSource.GetSnapshot()
	if r.VolumeContentSource != nil && source == nil {
		return nil, invalid("only a snapshot can be a volume's source")
	}

	file := d.store.volume(r.Name)
	if exists(file) {
		if old := sizeOf(file); old != size {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s has %d bytes, not %d", r.Name, old, size)
		}
	} else if err := d.makeVolume(file, size, source.GetSnapshotId()); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.Name, CapacityBytes: size, ContentSource: r.VolumeContentSource,
		AccessibleTopology: []*csi.Topology{d.topology()},
	}}, nil
}

func (d *driver) makeVolume(file string, size int64, snapshot string) error {
	free, err := d.store.free()
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	// ResourceExhausted makes the scheduler look for another node.
	if size > free {
		return status.Errorf(codes.ResourceExhausted, "%d bytes wanted, %d free on %s", size, free, d.node)
	}
	if snapshot == "" {
		err = d.store.create(file, size)
	} else {
		if !isFileName(snapshot) {
			return status.Errorf(codes.NotFound, "no snapshot %q", snapshot)
		}
		source := d.store.snapshot(snapshot)
		if !exists(source) {
			return status.Errorf(codes.ResourceExhausted, "snapshot %s is not on %s", snapshot, d.node)
		}
		if least := sizeOf(source); size < least {
			return status.Errorf(codes.OutOfRange, "the snapshot has %d bytes", least)
		}
		if !canMountCopies() {
			return status.Error(codes.FailedPrecondition, "volumes from snapshots need Linux 6.7 or later")
		}
		err = d.store.copy(source, file, size)
	}
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	file := d.store.volume(r.VolumeId)
	mounted, _, err := mountsOf(file)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if len(mounted) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is mounted at %v", r.VolumeId, mounted)
	}
	if err := remove(file); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *driver) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if len(r.VolumeCapabilities) == 0 {
		return nil, invalid("no volume capability")
	}
	if !exists(d.store.volume(r.VolumeId)) {
		return nil, status.Errorf(codes.NotFound, "no volume %s", r.VolumeId)
	}
	if err := checkCapabilities(r.VolumeCapabilities...); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.VolumeCapabilities},
	}, nil
}

func (d *driver) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	free, err := d.store.free()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.GetCapacityResponse{
		AvailableCapacity: free, MaximumVolumeSize: wrapperspb.Int64(free), MinimumVolumeSize: wrapperspb.Int64(minimumSize),
	}, nil
}

func (d *driver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	id := snapshotID(r.SourceVolumeId, r.Name)
	old, err := d.store.snapshotNamed(r.Name)
	switch {
	case err != nil:
		return nil, status.Error(codes.Internal, err.Error())
	case old != "" && old != id:
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s is of volume %s", r.Name, sourceOf(old))
	case old == "":
		source := d.store.volume(r.SourceVolumeId)
		if !exists(source) {
			return nil, status.Errorf(codes.NotFound, "no volume %s on %s", r.SourceVolumeId, d.node)
		}
		if err := d.store.copy(source, d.store.snapshot(id), 0); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	snapshot, err := d.describe(id)
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshot}, nil
}

func (d *driver) describe(id string) (*csi.Snapshot, error) {
	info, err := os.Stat(d.store.snapshot(id))
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.Snapshot{
		SnapshotId: id, SourceVolumeId: sourceOf(id), SizeBytes: info.Size(),
		CreationTime: timestamppb.New(info.ModTime()), ReadyToUse: true,
	}, nil
}

func (d *driver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := remove(d.store.snapshot(r.SnapshotId)); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots gives them in the order of their ids; a page's token is the last id given.
func (d *driver) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	entries, err := d.store.snapshots()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	resp := &csi.ListSnapshotsResponse{}
	for _, entry := range entries {
		id := entry.Name()
		if id <= r.StartingToken || r.SnapshotId != "" && r.SnapshotId != id ||
			r.SourceVolumeId != "" && r.SourceVolumeId != sourceOf(id) {
			continue
		}
		if n := len(resp.Entries); r.MaxEntries > 0 && n == int(r.MaxEntries) {
			resp.NextToken = resp.Entries[n-1].Snapshot.SnapshotId
			break
		}
		snapshot, err := d.describe(id)
		if err != nil {
			return nil, err
		}
		resp.Entries = append(resp.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshot})
	}
	return resp, nil
}
