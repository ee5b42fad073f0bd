package main

import (
	"context"
	"log"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar tells kubelet where the driver is.
type registrar struct {
	registration.UnimplementedRegistrationServer
	socket string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driverName, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("kubelet: registered=%v %s", s.PluginRegistered, s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}
