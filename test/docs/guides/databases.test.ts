/** The guides to databases, walked against one daemon and one PostgreSQL. */
import t from 'tap'
import { shareDaemon, sharePostgres } from '../../support/guide-setups.ts'
import { walk } from '../../support/guide-walker.ts'

const [daemon, postgresql] = await Promise.all([shareDaemon(), sharePostgres()])
t.teardown(() => Promise.all([daemon.close(), postgresql.close()]))
const own = { daemon: daemon.setup, postgresql: postgresql.setup }

await walk('postgresql', own)
await walk('mysql', own)
await walk('sqlite', own)
await walk('migrating-a-table', own)
await walk('exactly-once', own)
await walk('parked', own)
await walk('replay', own)
await walk('personal-data', own)
await walk('transform', own)
