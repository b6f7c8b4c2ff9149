import { Writable } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { type ServiceRoutesOptions, serviceRoutes } from '../../../src/api/http/service-routes.ts'

const log = pino(new Writable({ write: (_line, _encoding, done) => done() }))
const sound: ServiceRoutesOptions = {
  now: () => 0,
  isBufferRejecting: async () => false,
  isDiskFull: async () => false,
  damage: async () => ({ damagedSegments: 0, missingSegments: 0, lostMessages: 0 }),
  readMetadata: async () => [],
  isStopping: () => false,
  isInCluster: () => true,
  isSafe: false,
  publicUrls: { management: null, data: null },
  dataPort: () => null,
  log,
}

async function ready(change: Partial<ServiceRoutesOptions>) {
  const route = serviceRoutes({ ...sound, ...change }).find((one) => one.operationId === 'getReady')
  if (route === undefined) throw new Error('no such route')
  const { status, body } = await route.handler({
    params: {},
    query: new URLSearchParams(),
    headers: {},
    body: undefined,
    principal: null,
  })
  return { status, body }
}

t.test('ready: 200, or 503 with every reason', async (t) => {
  t.same(await ready({}), { status: 200, body: { status: 'ready' } })
  t.same(await ready({ isStopping: () => true }), {
    status: 503,
    body: { status: 'not_ready', reasons: ['shutting_down'] },
  })
  const all = await ready({
    isStopping: () => true,
    isInCluster: () => false,
    isBufferRejecting: async () => true,
    isDiskFull: async () => true,
    readMetadata: () => Promise.reject(new Error('gone')),
  })
  t.same(all.body, {
    status: 'not_ready',
    reasons: ['buffer_unavailable', 'disk_full', 'metadata_unreachable', 'shutting_down', 'not_in_cluster'],
  })
})

t.test('damage of the disk is a warning, and no reason to be taken out of service', async (t) => {
  const damage = { damagedSegments: 1, missingSegments: 2, lostMessages: 3 }
  const warnings = ['segments_damaged', 'segments_missing', 'messages_lost']
  t.same(await ready({ damage: async () => damage }), { status: 200, body: { status: 'ready', warnings } })
  const stopping = await ready({
    isStopping: () => true,
    damage: async () => ({ ...damage, damagedSegments: 0 }),
  })
  t.same(stopping.body, {
    status: 'not_ready',
    reasons: ['shutting_down'],
    warnings: ['segments_missing', 'messages_lost'],
  })
})

t.test('a start with --safe is a warning: records are taken, so nothing has to be moved away', async (t) => {
  t.same(await ready({ isSafe: true }), { status: 200, body: { status: 'ready', warnings: ['safe_mode'] } })
})
