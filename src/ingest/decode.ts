/**
 * The Content-Encoding of a body undone. Output is counted as it comes, against the body's own limit, the memory of all
 * bodies, and what it was made from: fourteen bytes of brotli can become ten megabytes. The decoder stops where a limit
 * is passed.
 */
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw, type Gunzip } from 'node:zlib'
import { ApiError, payloadTooLarge } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { BodyEncoding } from './admission.ts'
import { GrowingBuffer } from './growing-buffer.ts'

/** How much may come out. */
export interface DecodeLimits {
  maxBytes: number
  /** Called with what is about to be allocated; what it throws ends the decoding. */
  reserve(bytes: number): void
}

/** Throws `payload_too_large` over a limit, `invalid_payload` for bytes that are not of the encoding or are cut off. */
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
        // Aborts the work in the thread pool too; what it still gives is not read.
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
  // Each piece is a way to the thread pool and back: larger ones where there is much.
  const options = { chunkSize: bytes.length < 16 * 1024 ? 16 * 1024 : 64 * 1024 }
  if (encoding === 'gzip') return createGunzip(options)
  if (encoding === 'br') return createBrotliDecompress(options)
  // "deflate" is the zlib format; some clients send the bare stream. The low nibble of a zlib header is always 8.
  const isBare = bytes.length > 0 && (bytes[0]! & 0x0f) !== 8
  return isBare ? createInflateRaw(options) : createInflate(options)
}

function requireWithin(decodedBytes: number, sentBytes: number, maxBytes: number): void {
  if (decodedBytes > maxBytes) throw payloadTooLarge(maxBytes)
  if (
    decodedBytes > resourceLimits.freelyDecodedBytes &&
    decodedBytes > sentBytes * resourceLimits.mostDecodedPerByte
  ) {
    throw new ApiError('payload_too_large', {
      message: `The body decompresses to more than ${resourceLimits.mostDecodedPerByte} times its size, which is the limit above ${resourceLimits.freelyDecodedBytes} bytes.`,
      details: { limit: 'compression_ratio', limit_value: resourceLimits.mostDecodedPerByte },
    })
  }
}
