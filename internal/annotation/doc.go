// Package annotation finds what is annotated of the images of a dataset, in the layouts in which
// such datasets are published: folders of masks, Cityscapes and CityPersons, COCO, YOLO, Pascal
// VOC, ADE20K, and the columns of manifests. It reads annotations, and decodes no image.
package annotation
