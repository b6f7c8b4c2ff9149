/** A small body through hyper-express: read as it comes and counted; its own readers allocate what was announced. */
import { ApiError } from '../contract/errors.ts'
import { tooLarge } from '../ingest/body.ts'
import type { RouteRequest, RouteResponse } from './uws.ts'

/** Empty when there is none. Throws `payload_too_large`; `bad_request` when the client went away (nobody reads it). */
export function readBody(request: RouteRequest, response: RouteResponse, maxBytes: number): Promise<Buffer> {
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > maxBytes) return Promise.reject(tooLarge(maxBytes))
  if (announced === 0 && request.headers['transfer-encoding'] === undefined)
    return Promise.resolve(Buffer.alloc(0))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let received = 0
    request.on('data', (chunk: Uint8Array) => {
      received += chunk.byteLength
      if (received > maxBytes) {
        chunks.length = 0
        reject(tooLarge(maxBytes))
      } else chunks.push(Buffer.from(chunk))
    })
    // The stream also ends when the client goes away in the middle.
    request.once('end', () => {
      if (response.aborted) reject(new ApiError('bad_request'))
      else resolve(Buffer.concat(chunks))
    })
    request.once('error', reject)
  })
}
