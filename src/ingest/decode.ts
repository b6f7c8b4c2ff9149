/**
 * Decodes the Content-Encoding of a body. Output is counted as it is produced, against the body's limit, the memory of
 * all bodies, and the size of the input: fourteen bytes of brotli can become ten megabytes. Decoding stops when a limit
 * is exceeded.
 */
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw, type Gunzip } from 'node:zlib'
import { ApiError, payloadTooLarge } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { BodyEncoding } from './body-source.ts'
import { GrowingBuffer } from './growing-buffer.ts'

/** Limits of the decoded size. */
export interface DecodeLimits {
  maxBytes: number
  /** Called before memory is allocated. An error that it throws ends the decoding. */
  reserve(bytes: number): void
}

/** Throws `payload_too_large` over a limit, and `invalid_payload` for data that is invalid or truncated. */
export function decodeBody(
  bytes: Buffer,
  encoding: Exclude<BodyEncoding, 'identity'>,
  { maxBytes, reserve }: DecodeLimits,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const decoder = decoderFor(bytes, encoding)
    const decoded = new GrowingBuffer(maxBytes, reserve)
    decoder.on('data', (piece: Buffer) => {
      try {
        requireWithin(decoded.length + piece.length, bytes.length, maxBytes)
        decoded.append(piece)
      } catch (error) {
        // Ends the work in the thread pool as well; its remaining output is not read.
        decoder.destroy()
        reject(error)
      }
    })
    decoder.once('end', () => resolve(decoded.bytes()))
    decoder.once('error', () =>
      reject(new ApiError('invalid_payload', { message: `The body is not valid ${encoding} data.` })),
    )
    decoder.end(bytes)
  })
}

function decoderFor(bytes: Buffer, encoding: Exclude<BodyEncoding, 'identity'>): Gunzip {
  // Each chunk costs a round trip to the thread pool, so large bodies use larger chunks.
  const options = { chunkSize: bytes.length < 16 * 1024 ? 16 * 1024 : 64 * 1024 }
  if (encoding === 'gzip') return createGunzip(options)
  if (encoding === 'br') return createBrotliDecompress(options)
  // "deflate" means the zlib format, but some clients send the raw stream. The low nibble of a zlib header is always 8.
  const isBare = bytes.length > 0 && (bytes[0]! & 0x0f) !== 8
  return isBare ? createInflateRaw(options) : createInflate(options)
}

function requireWithin(decodedBytes: number, sentBytes: number, maxBytes: number): void {
  if (decodedBytes > maxBytes) throw payloadTooLarge(maxBytes)
  if (
    decodedBytes > resourceLimits.freelyDecodedBytes &&
    decodedBytes > sentBytes * resourceLimits.maxDecodedPerByte
  ) {
    throw new ApiError('payload_too_large', {
      message: `The body decompresses to more than ${resourceLimits.maxDecodedPerByte} times its size, which is the limit above ${resourceLimits.freelyDecodedBytes} bytes.`,
      details: { limit: 'compression_ratio', limit_value: resourceLimits.maxDecodedPerByte },
    })
  }
}
