/** SQL databases: PostgreSQL, MySQL and MariaDB. */
import { type Config, oneOf, optionalSecret, pem } from './config-field.ts'
import {
  type ConnectionUrl,
  ConnectionUrlError,
  decodedPart,
  rejectUnknownParameters,
} from './connection-url.ts'
import { sendAtOnce, type TypeFacts } from './type-facts.ts'

export type Dialect = 'postgresql' | 'mysql'
const dialectNames = ['postgresql', 'postgres', 'pg', 'mysql', 'mariadb'] as const
const defaultPorts: Record<Dialect, number> = { postgresql: 5432, mysql: 3306 }

function dialectOf({ dialect, sql_dialect }: Config): Dialect {
  const name = oneOf(dialect ?? sql_dialect, dialectNames)
  return name === 'mysql' || name === 'mariadb' ? 'mysql' : 'postgresql'
}

function portOf(config: Config): number {
  return Number(config.port ?? defaultPorts[dialectOf(config)])
}

function tlsVerifyOf({ tls_verify, tls_ca }: Config): 'none' | 'ca' | 'full' {
  return oneOf(tls_verify, ['none', 'ca', 'full']) ?? (tls_ca ? 'full' : 'none')
}

const urlParameters = ['table', 'exactly_once', 'tls_verify']
/** The modes of libpq that verify the server. All others leave it to the daemon whether TLS is used. */
const verifyingModes: Readonly<Record<string, string>> = { 'verify-ca': 'ca', 'verify-full': 'full' }

const url: ConnectionUrl = {
  schemes: ['postgres', 'postgresql', 'mysql', 'mariadb'],
  form: 'postgres://user@host/db?table=events',
  field: {
    example: 'postgres://user:password@host:5432/database',
    keys: ['dialect', 'host', 'port', 'database', 'username', 'password'],
  },
  needs: ['database'],
  uses: (name, value) =>
    urlParameters.includes(name) || (name === 'sslmode' && Object.hasOwn(verifyingModes, value)),
  passwordKey: 'password',
  parse(url) {
    const name = decodedPart(url.pathname.replace(/^\//, ''))
    if (url.hostname === '' || name.includes('/'))
      throw new ConnectionUrlError(
        url.hostname === '' ? 'it names no host' : 'its path has several parts',
        `write it as ${url.protocol}//user@host/database?table=events`,
      )
    rejectUnknownParameters(url, this, urlParameters)
    const scheme = url.protocol.slice(0, -1)
    const table = url.searchParams.get('table')
    const tls_verify =
      url.searchParams.get('tls_verify') ?? verifyingModes[url.searchParams.get('sslmode') ?? '']
    const exactlyOnce = url.searchParams.get('exactly_once')
    if (exactlyOnce !== null && exactlyOnce !== 'true' && exactlyOnce !== 'false')
      throw new ConnectionUrlError(
        `exactly_once is ${JSON.stringify(exactlyOnce)}`,
        'write exactly_once=true or exactly_once=false',
      )
    return {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      dialect: scheme === 'postgres' ? 'postgresql' : scheme,
      ...(name === '' ? {} : { database: name }),
      ...(url.port === '' ? {} : { port: Number(url.port) }),
      ...(url.username === '' ? {} : { username: decodedPart(url.username) }),
      ...(table ? { table } : {}),
      ...(tls_verify === undefined ? {} : { tls_verify }),
      ...(exactlyOnce === null ? {} : { exactly_once: exactlyOnce === 'true' }),
    }
  },
}

export const database = {
  kind: 'database',
  title: 'Database',
  summary: 'Rows of a table in PostgreSQL, MySQL or MariaDB.',
  guides: [
    ['postgresql.md', 'PostgreSQL'],
    ['mysql.md', 'MySQL and MariaDB'],
    ['exactly-once.md', 'Exactly once'],
    ['tls.md', 'TLS'],
  ],
  examples: [
    "pipectl destinations create orders --url 'postgres://loader@db.example.com/shop?table=orders' --infer --create-table",
    "pipectl destinations create orders --url 'mysql://loader@db.example.com/shop?table=orders' --column id:number:dedupe_id --column total:number",
  ],
  fields: {
    dialect: {
      kind: 'choice',
      label: 'Server type',
      options: { postgresql: 'PostgreSQL', postgres: null, pg: null, mysql: 'MySQL', mariadb: 'MariaDB' },
      usual: 'PostgreSQL',
      flag: { value: 'dialect', help: 'postgresql, mysql or mariadb' },
      resolve: dialectOf,
    },
    sql_dialect: {
      kind: 'choice',
      label: 'Server type',
      hint: 'The same as dialect.',
      options: { postgresql: 'PostgreSQL', postgres: null, pg: null, mysql: 'MySQL', mariadb: 'MariaDB' },
      aliasOf: 'dialect',
    },
    host: {
      kind: 'text',
      label: 'Host',
      example: 'db.example.com',
      needed: true,
      maxLength: 255,
      flag: { value: 'host', help: 'database host' },
    },
    port: {
      kind: 'port',
      label: 'Port',
      usual: '5432, MySQL and MariaDB 3306',
      flag: { value: 'port', help: 'database port' },
      resolve: portOf,
    },
    database: {
      kind: 'text',
      label: 'Database',
      needed: true,
      maxLength: 1000,
      flag: { value: 'name', help: 'database' },
    },
    username: {
      kind: 'text',
      label: 'User',
      needed: true,
      maxLength: 1000,
      flag: { value: 'name', help: 'database user' },
    },
    password: {
      kind: 'text',
      label: 'Password',
      secret: 'text',
      needed: true,
      empty: 'allowed',
      maxLength: 4096,
    },
    table: {
      kind: 'text',
      label: 'Table',
      hint: 'table or schema.table; in MySQL and MariaDB table or database.table.',
      example: 'events or schema.events',
      needed: true,
      maxLength: 1000,
      flag: { value: 'table', help: 'table or schema.table' },
    },
    exactly_once: {
      kind: 'boolean',
      label: 'Delivery guarantee',
      hint: 'Every record is stored exactly once, also after a crash or a lost response: pipectl keeps its position in the table _pipectl_lanes next to yours, in the same transaction. Otherwise a repeat is stored twice unless a column has the role dedupe_id.',
      options: { true: 'exactly once', false: 'at least once' },
      default: false,
    },
    auto_add_columns: {
      kind: 'boolean',
      label: 'Keys without a column',
      hint: 'A key that no column takes gets a column of its name once 20 sampled records had it, or once its first and last record are 60 s apart: at most 20 columns a day. Records that were delivered before keep NULL. The user needs the right to ALTER the table.',
      options: { true: 'get a nullable column', false: 'are not stored' },
      default: false,
    },
    tls_verify: {
      kind: 'choice',
      label: 'Server certificate',
      hint: 'With ca and full, connections to loopback use TLS too.',
      options: {
        none: 'not verified, the key of the first server is pinned',
        ca: 'of a trusted authority',
        full: 'of a trusted authority, and for the host',
      },
      usual: 'full with tls_ca, else none',
      advanced: true,
      nullable: true,
      empty: 'unset',
      flag: {
        value: 'how',
        help: "how to verify the server's certificate: none, ca or full; for NATS true or false",
      },
      resolve: tlsVerifyOf,
    },
    tls_ca: {
      ...pem,
      label: 'CA certificates',
      hint: 'PEM: the authorities whose certificates are trusted, instead of the public ones. Needs tls_verify ca or full.',
      empty: 'unset',
      flag: { value: 'file', help: 'PEM file with the CA of that certificate' },
    },
    tls_cert: {
      ...pem,
      label: 'Client certificate',
      hint: 'PEM: the client certificate, with the intermediate ones. Needs tls_key. Connections to loopback use TLS too.',
      empty: 'unset',
      flag: { value: 'file', help: 'PEM file with the certificate that pipectl presents' },
    },
    tls_key: {
      ...optionalSecret,
      label: 'Client certificate key',
      hint: 'PEM: the private key of tls_cert, without a passphrase.',
      lines: 'pem',
      advanced: true,
      maxLength: 16_384,
      flag: { value: 'file', help: 'PEM file with its private key' },
    },
  },
  hasColumns: true,
  isDatabase: true,
  hasServerKey: true,
  isTableFile: false,
  hasConcurrency: false,
  isPulled: false,
  receiver: 'table',
  defaultFlush: sendAtOnce,
  url,
  target: ({ host, database, table }) => `${host}/${database} ${table}`,
  targetKey: (config) => [config.host, String(portOf(config)), config.database, config.table],
  server: (config) => `${String(config.host).toLowerCase()} ${portOf(config)}`,
  shownServer: (config) => `${config.host}:${portOf(config)}`,
  verification: (config) => ['none', 'ca', 'full'].indexOf(tlsVerifyOf(config)),
} as const satisfies TypeFacts
