/** The layout of the scanner's memory. Memory outside these areas is never accessed. */

/** The result of a scan, three u32: the number of records, the bytes of their original texts, the number of values. */
export const resultAt: usize = 1024
/** The closing byte of each open container. */
export const openContainersAt: usize = 2048
export const openContainers: i32 = 256
/** Per watched key: a u32 with its length and a u32 with its address. */
export const keyTableAt: usize = 4096
export const watchedKeys: i32 = 80
/** The bytes of the watched keys. */
export const keyBytesAt: usize = 5120
/** The members that are added to every record. */
export const insertionAt: usize = 32768
/** The compiled schema of the pipe (match.ts). */
export const schemaAt: usize = 65536
/** The body, followed by a zero byte that ends every loop over text, and the output. */
export const inputAt: usize = 131072
/** Strings and keys are read 16 bytes at a time, so a read can pass the end of the text by this much. */
export const readAhead: i32 = 16
