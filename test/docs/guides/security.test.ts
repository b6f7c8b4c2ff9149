/** The guides to security, API keys and the HTTP API, walked against one daemon. */
import t from 'tap'
import { shareDaemon } from '../../support/guide-setups.ts'
import { walk } from '../../support/guide-walker.ts'

const daemon = await shareDaemon()
t.teardown(() => daemon.close())
const own = { daemon: daemon.setup }

await walk('security', own)
await walk('api-keys', own)
await walk('http-api', own)
