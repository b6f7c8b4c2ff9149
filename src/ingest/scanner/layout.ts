/** The scanner's memory, from its first byte on. Memory outside these areas is never touched. */

/** The result of a scan, two u32: records, and bytes of their texts as sent. */
export const resultAt: usize = 1024
/** The closing byte of each container that is open around a value. */
export const openContainersAt: usize = 2048
export const openContainers: i32 = 256
/** Watched keys: for each a u32 with its length and a u32 with its address. */
export const keyTableAt: usize = 4096
export const watchedKeys: i32 = 80
/** The watched keys' bytes. */
export const keyBytesAt: usize = 5120
/** The members that are added to every record. */
export const insertionAt: usize = 32768
/** The body. After it a zero byte, at which every loop over text ends; then the output. */
export const inputAt: usize = 65536
/** Strings and keys are read 16 bytes at a time, so a read may pass the end of what is read by as much. */
export const readAhead: i32 = 16
