/** A real nats-server that says it has another version: all that is read of it is the line with which it greets. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** Returns its address. Ends with the test. */
export async function announcing(t: Test, port: number, version: string): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    }
    upstream.once('data', (greeting) => {
      client.write(
        greeting.toString('latin1').replace(/"version":"[^"]*"/, `"version":"${version}"`),
        'latin1',
      )
      upstream.pipe(client)
    })
    client.pipe(upstream)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port: own } = server.address() as AddressInfo
  return `nats://127.0.0.1:${own}`
}
