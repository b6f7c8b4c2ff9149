// Receives what pipectl delivers, if it is genuine:  PIPECTL_SIGNING_SECRET=whsec_… PORT=8000 node receive.mjs
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const toleranceSeconds = 300
const maxBodyBytes = 64 * 1024 * 1024

/** Whether this body, a Buffer with the bytes as they arrived, was signed with this key less than five minutes ago. */
export function isGenuine(headers, body, key) {
  const id = headers['webhook-id']
  const timestamp = headers['webhook-timestamp']
  if (!id || !/^\d{1,12}$/.test(timestamp)) return false
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > toleranceSeconds) return false
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')
  const expected = Buffer.from(`v1,${digest}`)
  // During a change of the secret there are several signatures.
  return (headers['webhook-signature'] ?? '').split(' ').some((one) => {
    const given = Buffer.from(one)
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}

async function receive(request, response) {
  const pieces = []
  let bytes = 0
  for await (const piece of request) {
    bytes += piece.length
    if (bytes > maxBodyBytes) return response.writeHead(413, { Connection: 'close' }).end()
    pieces.push(piece)
  }
  const body = Buffer.concat(pieces)
  if (!isGenuine(request.headers, body, key)) return response.writeHead(401).end()
  // Store the records here, then respond. A repeated request has the same webhook-id.
  console.log(request.headers['webhook-id'], body.toString())
  response.writeHead(204).end()
}

const secret = process.env.PIPECTL_SIGNING_SECRET ?? ''
const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
if (key.length === 0) throw new Error('PIPECTL_SIGNING_SECRET must be set to whsec_ and base64')
const server = createServer((request, response) => receive(request, response).catch(() => response.destroy()))
server.listen(Number(process.env.PORT ?? 8000), '127.0.0.1')
