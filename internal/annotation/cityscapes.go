package annotation

import (
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/target"
)

const (
	cityImages   = "leftImg8bit"
	trainIDs     = "trainids" // a value of Options.LabelMap
	labelIDs     = "labelIds.png"
	cityTrainIDs = "labelTrainIds.png"
)

// cityLabels are the labels of Cityscapes in the order of their ids, as in its scripts. cityTrained
// are the trained ones; their index is the trainId.
var cityLabels = strings.Split("unlabeled,ego vehicle,rectification border,out of roi,static,dynamic,ground,road,sidewalk,parking,"+
	"rail track,building,wall,fence,guard rail,bridge,tunnel,pole,polegroup,traffic light,traffic sign,vegetation,terrain,sky,person,"+
	"rider,car,truck,bus,caravan,trailer,train,motorcycle,bicycle", ",")

var cityTrained = strings.Split("road,sidewalk,building,wall,fence,pole,traffic light,traffic sign,vegetation,terrain,sky,person,"+
	"rider,car,truck,bus,train,motorcycle,bicycle", ",")

// personLabels are the labels of CityPersons. The last two are regions to ignore.
var personLabels = []string{"pedestrian", "rider", "sitting person", "person (other)", "person group", "ignore"}

// cityFolders are those beside leftImg8bit. A script makes masks of trainIds from those of
// labelIds.
var cityFolders = []folder{
	{cityImages, "gtFine", true, masksOf("_gtFine_"+labelIDs, "_gtFine_"+cityTrainIDs, "_gtFine_instanceIds.png")},
	{cityImages, "gtCoarse", true, masksOf("_gtCoarse_"+labelIDs, "_gtCoarse_"+cityTrainIDs, "_gtCoarse_instanceIds.png")},
	{cityImages, "gtBboxCityPersons", false, objectsOf(personEnding)},
}

// cityClasses are the classes of masks with an ending; nil if Cityscapes has no such ending.
func cityClasses(ending string) []string {
	switch {
	case strings.HasSuffix(ending, "_"+labelIDs):
		return cityLabels
	case strings.HasSuffix(ending, "_"+cityTrainIDs):
		return cityTrained
	}
	return nil
}

// trainIDs maps the values of masks to trainIds; nil if the masks are not from Cityscapes.
func (m *Masks) trainIDs() (values []int32) {
	if m == nil {
		return nil
	}
	for _, class := range cityClasses(m.Ending) {
		values = append(values, int32(slices.Index(cityTrained, class)))
	}
	return values
}

const personEnding = "_gtBboxCityPersons.json"

// parsePersons reads a file of CityPersons.
func parsePersons(text []byte) (p imageFile) {
	d := &jsonReader{}
	object := func(k int) error {
		if k == maxObjects {
			return errManyObjects
		}
		o := target.Object{ID: int64(k), Label: -1}
		err := d.object(func(key string) error { return d.person(&o, key) })
		if o.Label < 0 && err == nil {
			d.complain("its label is none of CityPersons")
		}
		if p.bad == "" && d.bad != "" {
			p.bad = d.at("objects", k)
		}
		p.objects = append(p.objects, o)
		return err
	}
	err := d.readObject(text, func(key string) error {
		switch key {
		case "imgHeight":
			return d.extent(&p.height)
		case "imgWidth":
			return d.extent(&p.width)
		case "objects":
			return d.array(object)
		}
		return d.Skip()
	})
	if err != nil {
		p.bad = err.Error()
	}
	if p.bad != "" {
		p.objects = nil
	}
	return p
}

// person reads a field of an object of CityPersons.
func (d *jsonReader) person(o *target.Object, key string) (err error) {
	switch key {
	case "bbox":
		o.Box, err = d.box(key)
	case "bboxVis":
		var visible target.Box
		if visible, err = d.box(key); err == nil {
			o.Visible = &visible
		}
	case "label":
		var label string
		label, err = d.text(key)
		if o.Label = int32(slices.Index(personLabels, label)); label == "ignore" || label == "person group" {
			o.Flags |= target.Ignore
		}
	case "instanceId":
		var id whole
		id, err = d.whole()
		o.ID = id.n
	default:
		err = d.Skip()
	}
	return err
}
