/** MySQL and MariaDB as destinations, in several versions. */
import t from 'tap'
import { TestAuthority } from '../support/certificates.ts'
import { startDaemon } from '../support/daemon.ts'
import { type MysqlBuild, startMariadb } from '../support/mariadb.ts'
import { mariadbOf, mysqlOf } from './builds.ts'
import type { ProductId } from './products.ts'
import { tried, versionIn } from './results.ts'
import { storesTables } from './table-scenario.ts'

const authority = new TestAuthority()
const daemon = await startDaemon()
t.teardown(async () => {
  await daemon.close()
  authority.close()
})

const servers: readonly (readonly [ProductId, 'mysql' | 'mariadb', () => MysqlBuild])[] = [
  ['mariadb-10', 'mariadb', () => mariadbOf('bookworm')],
  ['mariadb-11', 'mariadb', () => mariadbOf('trixie')],
  ['mysql', 'mysql', () => mysqlOf('sid')],
]

for (const [id, dialect, build] of servers)
  await tried(t, id, async (t) => {
    const server = await startMariadb({ build: build(), tls: authority.issue() })
    t.teardown(() => server.stop())
    const { host, port, database } = server
    const [username, password] = ['loader', 'only pipectl logs in as this user']
    await server.query(`CREATE USER ${username}@'127.0.0.1' IDENTIFIED BY '${password}'`)
    await server.query(`GRANT ALL ON ${database}.* TO ${username}@'127.0.0.1'`)
    // MySQL asks for the password itself at the first login after a start (caching_sha2_password). Only a verified server gets it.
    const verified = { tls_verify: 'full', tls_ca: authority.ca }
    const { query, halt, start } = server
    await storesTables(t, daemon, {
      ...{ dialect, query, halt, start },
      config: { host, port, database, username, password, ...verified },
    })
    return versionIn(String((await query('SELECT version() AS version'))[0]?.version))
  })
