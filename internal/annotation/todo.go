package annotation

func (f *finder) findManifest() (bool, error) { return false, nil }
func (f *finder) findVOC() (bool, error)      { return false, nil }
func (f *finder) findADE() (bool, error)      { return false, nil }
func (f *finder) findYOLO() (bool, error)     { return false, nil }
func (f *finder) findGiven() (bool, error)    { return false, nil }
