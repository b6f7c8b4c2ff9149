/** A DNS server on loopback that knows the IPv4 addresses of a few names, for an hour; no other name exists. */
import { createSocket } from 'node:dgram'

export async function startNameServer(names: Record<string, string>) {
  const server = createSocket('udp4')
  server.on('message', (query, from) => server.send(answer(query, names), from.port, from.address))
  await new Promise<void>((resolve) => server.bind(0, '127.0.0.1', resolve))
  return { servers: [`127.0.0.1:${server.address().port}`], stop: () => server.close() }
}

function answer(query: Buffer, names: Record<string, string>): Buffer {
  let at = 12
  const labels: string[] = []
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const address = names[labels.join('.')]
  const isA = query.readUInt16BE(at + 1) === 1
  const head = Buffer.from(query.subarray(0, at + 5))
  head.writeUInt16BE(address === undefined ? 0x8183 : 0x8180, 2)
  head.writeUInt16BE(address !== undefined && isA ? 1 : 0, 6)
  head.fill(0, 8, 12)
  if (address === undefined || !isA) return head
  const octets = address.split('.').map(Number)
  return Buffer.concat([head, Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, ...octets])])
}
