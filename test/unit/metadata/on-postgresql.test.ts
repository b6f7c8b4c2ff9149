/** PostgreSQL keeps the metadata port: what the tests of this folder say of SQLite holds there too, but for what is about its file. */
import t from 'tap'
import { startPostgres } from '../../support/postgres.ts'
import { keepOn } from './database.ts'

const server = await startPostgres()
t.teardown(() => server.stop())
keepOn(server)

await import('./port.test.ts')
await import('./audit.test.ts')
await import('./destinations.test.ts')
await import('./directory.test.ts')
await import('./isolation.test.ts')
await import('./lane-history.test.ts')
await import('./lane-latency.test.ts')
await import('./lane-store.test.ts')
await import('./lanes.test.ts')
await import('./parked.test.ts')
await import('./pipe-parked.test.ts')
await import('./pipes.test.ts')
await import('./quotas.test.ts')
await import('./revoked-keys.test.ts')
await import('./server-key-pins.test.ts')
await import('./stopped-owner.test.ts')
await import('./usage.test.ts')
await import('./users.test.ts')
