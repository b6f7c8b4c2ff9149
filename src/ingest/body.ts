/**
 * What a body is, by its headers, and its bytes with the Content-Encoding undone. Nothing is allocated on a client's
 * word: output is capped while it is produced, so that a small body cannot become a large one.
 */
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate, inflateRaw } from 'node:zlib'
import { ApiError } from '../contract/errors.ts'

export type BodyFormat = 'json' | 'ndjson'
export type BodyEncoding = 'identity' | 'gzip' | 'deflate' | 'br'

/** Throws `invalid_payload` for anything but JSON and NDJSON in UTF-8. */
export function bodyFormat(contentType: string): BodyFormat {
  if (contentType === 'application/json') return 'json'
  const [type, ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase())
  for (const parameter of parameters) {
    const charset = /^charset\s*=\s*"?([^"]*)"?$/.exec(parameter)?.[1]
    if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
      throw new ApiError('invalid_payload', { message: `The body must be UTF-8, not ${charset}.` })
    }
  }
  if (type === 'application/json') return 'json'
  if (type === 'application/x-ndjson') return 'ndjson'
  throw new ApiError('invalid_payload', {
    message: 'Content-Type must be application/json (or application/x-ndjson, one object a line).',
  })
}

/** Throws `unsupported_encoding`. */
export function bodyEncoding(contentEncoding: string): BodyEncoding {
  switch (contentEncoding.trim().toLowerCase()) {
    case '':
    case 'identity':
      return 'identity'
    case 'gzip':
    case 'x-gzip':
      return 'gzip'
    case 'deflate':
      return 'deflate'
    case 'br':
      return 'br'
    default:
      throw new ApiError('unsupported_encoding')
  }
}

const decompressors = {
  gzip: promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
}
const inflateBare = promisify(inflateRaw)

/** Throws `payload_too_large` over `maxBytes`, `invalid_payload` for bytes that are not of the encoding or are cut off. */
export async function decodeBody(
  bytes: Buffer,
  encoding: Exclude<BodyEncoding, 'identity'>,
  maxBytes: number,
): Promise<Buffer> {
  // "deflate" is the zlib format; some clients send the bare stream. The low nibble of a zlib header is always 8.
  const isBare = encoding === 'deflate' && bytes.length > 0 && (bytes[0]! & 0x0f) !== 8
  const decompress = isBare ? inflateBare : decompressors[encoding]
  try {
    return await decompress(bytes, { maxOutputLength: maxBytes })
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') {
      throw tooLarge(maxBytes)
    }
    throw new ApiError('invalid_payload', { message: `The body is not valid ${encoding} data.` })
  }
}

export function tooLarge(maxBytes: number): ApiError {
  return new ApiError('payload_too_large', {
    message: `The body is larger than ${maxBytes} bytes, as sent or decompressed.`,
  })
}
