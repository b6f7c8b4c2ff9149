import t from 'tap'
import {
  isConnectionString,
  mayHoldSecret,
  passwordMask,
  readConnectionString,
} from '../../../src/apps/client/connection-string.ts'
import { ConnectionUrlError } from '../../../src/contract/destinations/connection-url.ts'

const database = 'destination_database'

t.test('strings as services show them', async (t) => {
  t.strictSame(
    readConnectionString(database, 'postgres://loader:p%40ss@db.example.com:6543/shop?sslmode=require'),
    {
      config: {
        ...{ host: 'db.example.com', dialect: 'postgresql', database: 'shop', port: 6543 },
        ...{ username: 'loader', password: 'p@ss' },
      },
      shown: `postgres://loader:${passwordMask}@db.example.com:6543/shop`,
      unused: ['sslmode'],
    },
  )
  const psql = readConnectionString(
    database,
    ` psql 'postgresql://u:secret@ep-1.neon.tech/main?sslmode=verify-full&channel_binding=require' `,
  )
  t.match(psql.config, { host: 'ep-1.neon.tech', tls_verify: 'full', password: 'secret' })
  t.same(psql.unused, ['channel_binding'])
  t.notMatch(psql.shown, 'secret')
  for (const scheme of ['mysql', 'mariadb'])
    t.match(readConnectionString(database, `${scheme}://u:p@[::1]/shop?table=t`).config, {
      ...{ host: '::1', dialect: scheme, table: 't', password: 'p' },
    })
})

t.test('a placeholder, or the mask of a password that is known already, is no password', async (t) => {
  for (const password of ['[YOUR-PASSWORD]', '<password>', '********', passwordMask]) {
    const { config } = readConnectionString(database, `postgres://u:${password}@h/db`)
    t.equal(Object.hasOwn(config, 'password'), false, password)
  }
  const again = readConnectionString(database, `postgres://u:${passwordMask}@h/db`)
  t.equal(again.shown, `postgres://u:${passwordMask}@h/db`)
  t.equal(readConnectionString(database, 'postgres://u:[YOUR-PASSWORD]@h/db').shown, 'postgres://u@h/db')
})

t.test('the secrets of other types go into their fields too', async (t) => {
  t.same(readConnectionString('destination_nats', 'nats://u:secret@h:4222?subject=a').config, {
    ...{ url: 'nats://h:4222', subject: 'a', username: 'u', password: 'secret' },
  })
  t.same(readConnectionString('destination_http_endpoint', 'https://u:sécret@h/hook?a=1').config, {
    url: 'https://h/hook?a=1',
    auth_header: `Basic ${Buffer.from('u:sécret').toString('base64')}`,
  })
  t.same(readConnectionString('destination_object_store', 's3://lake?region=eu-central-1').config, {
    ...{ bucket: 'lake', region: 'eu-central-1' },
  })
})

t.test('a malformed string is explained, without its secret', async (t) => {
  const cases: [text: string, message: RegExp][] = [
    ['postgres://u:hunter#2@h/db', /another meaning/],
    ['postgres://u:hunter/2@h/db', /another meaning/],
    ['postgres://u:hunter%2@h/db', /% that/],
    ['postgres://u:hunter2@h1:1,h2:2/db', /several hosts/],
    ['postgres://u:hunter2@h/a/b', /several parts/],
    ['jdbc:postgresql://h/db?password=hunter2', /JDBC/],
    ['nats://u:hunter2@h', /type NATS/],
    ['host=h password=hunter2', /begins with none of/],
    ['postgres://u:hunter2', /not a valid address/],
  ]
  for (const [text, message] of cases) {
    t.ok(mayHoldSecret(text), text)
    try {
      readConnectionString(database, text)
      t.fail(text)
    } catch (error) {
      t.type(error, ConnectionUrlError)
      if (!(error instanceof ConnectionUrlError)) continue
      t.match(error.message, message, text)
      t.notMatch(`${error.message} ${error.hint}`, /hunter/)
    }
  }
})

t.test('a text without a password stays readable', async (t) => {
  for (const text of ['postgres://h:5432/db', 'postgres://u@[::1]:5432/db?table=a', 'db.example.com'])
    t.notOk(mayHoldSecret(text), text)
  t.notOk(mayHoldSecret(`postgres://u:${passwordMask}@h:5432/db`))
  t.ok(mayHoldSecret('postgres://u:pa'), 'while it is typed')
  t.ok(isConnectionString(database, '"postgresql://h/db"'))
  t.notOk(isConnectionString(database, 'db.example.com'))
})
