/** Bodies of a few bytes that decompress to ten megabytes of spaces, by their Content-Encoding. */
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'

const spaces = Buffer.alloc(10 * 1024 * 1024, ' ')

export const bombs = [
  ['br', brotliCompressSync(spaces)],
  ['gzip', gzipSync(spaces)],
  ['deflate', deflateSync(spaces)],
] as const
