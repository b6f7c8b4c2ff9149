/** The versions that nats-servers report, and those that are too old for several copies. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { oldServersText, serverVersions, tooOldForReplicas } from '../../../src/cluster/nats/versions.ts'
import { announcing } from '../../support/announced-version.ts'
import { startNats } from '../../support/nats.ts'

t.test('each server says its own, before it asks for a password or TLS', async (t) => {
  const [open, closed] = await Promise.all([
    startNats(),
    startNats({ tls: true, auth: { user: 'me', password: 'secret' } }),
  ])
  t.teardown(() => Promise.all([open.stop(), closed.stop()]))
  const old = await announcing(t, open.servers[0]!.port, '2.9.10')
  const servers = [open.servers[0]!.url, closed.servers[0]!.url, old, 'nats://127.0.0.1:1']
  const found = await serverVersions({ servers })
  t.match(found[0]?.version, /^\d+\.\d+\.\d+/)
  t.equal(found[1]?.version, found[0]?.version)
  t.same(found.slice(2), [
    { server: old, version: '2.9.10' },
    { server: 'nats://127.0.0.1:1', version: null },
  ])
  t.same(tooOldForReplicas(found), [{ server: old, version: '2.9.10' }])
})

t.test('versions are compared number by number, and one that is unknown is not judged', (t) => {
  const isOld = (version: string | null) => tooOldForReplicas([{ server: 's', version }]).length === 1
  for (const version of ['2.9.10', '2.10.26', '2.10.3', '1.99.99', 'v2.9.10', '2.10.26-RC.1'])
    t.ok(isOld(version), version)
  for (const version of [
    '2.10.27',
    '2.10.100',
    '2.11.0',
    '2.11.0-preview.1',
    '3.0.0',
    'v2.15.1',
    null,
    'dev',
  ])
    t.notOk(isOld(version), String(version))
  t.match(
    oldServersText([{ server: 'nats://a:4222', version: '2.9.10' }]),
    /^nats:\/\/a:4222 is nats-server 2\.9\.10: three replicas need 2\.10\.27 or newer/,
  )
  t.end()
})

t.test('who says something else, nothing, or no end of it, has no version', async (t) => {
  const garbage = [
    (socket: Socket) => socket.write('HTTP/1.1 400 Bad Request\r\n'),
    (socket: Socket) => socket.write('INFO {"version":"2.9.10"\r\n'),
    (socket: Socket) => socket.write('INFO {"version":["2.9.10"]}\r\n'),
    (socket: Socket) => socket.write('INFO {"version":"new\\u001b[2J"}\r\n'),
    (socket: Socket) => socket.end(),
    () => {},
    (socket: Socket) => {
      const more = () => {
        while (socket.write('x'.repeat(16_384)));
      }
      socket.on('drain', more)
      more()
    },
  ]
  const servers = await Promise.all(garbage.map((say) => saying(t, say)))
  t.same(
    await serverVersions({ servers }),
    servers.map((server) => ({ server, version: null })),
  )
})

async function saying(t: Test, say: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    say(socket)
    t.teardown(() => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  return `nats://127.0.0.1:${port}`
}
