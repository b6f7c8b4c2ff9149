/** A table in a SQLite file below the data directory. There is no server, and so there are no secrets. */
import { type ConnectionUrl, ConnectionUrlError, rejectUnknownParameters } from './connection-url.ts'
import { sendAtOnce, type TypeFacts } from './type-facts.ts'

/** Names of files: without a dot and a slash, a name cannot leave its directory or be that of a `-wal` file. */
export const fileNamePattern = '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$'
const urlParameters = ['table', 'exactly_once', 'size_limit_mib']

const url: ConnectionUrl = {
  schemes: ['sqlite'],
  form: 'sqlite://file?table=events',
  needs: ['file', 'table'],
  uses: (name) => urlParameters.includes(name),
  parse(url, text) {
    // The host of a URL can be in lower case only.
    const file = /^sqlite:\/\/([^/?#@:]*)\/?(?:[?#]|$)/i.exec(text)?.[1]
    if (file === undefined)
      throw new ConnectionUrlError(
        'it is not sqlite:// and the name of a file',
        'write it as sqlite://shop?table=events; the file is shop.sqlite below the data directory',
      )
    rejectUnknownParameters(url, this, urlParameters)
    const table = url.searchParams.get('table')
    const exactlyOnce = url.searchParams.get('exactly_once')
    if (exactlyOnce !== null && exactlyOnce !== 'true' && exactlyOnce !== 'false')
      throw new ConnectionUrlError(
        `exactly_once is ${JSON.stringify(exactlyOnce)}`,
        'write exactly_once=true or exactly_once=false',
      )
    const limit = url.searchParams.get('size_limit_mib')
    if (limit !== null && !/^[1-9]\d{0,8}$/.test(limit))
      throw new ConnectionUrlError(
        `size_limit_mib is ${JSON.stringify(limit)}`,
        'write a whole number of MiB, such as size_limit_mib=2048',
      )
    return {
      ...(file === '' ? {} : { file }),
      ...(table ? { table } : {}),
      ...(exactlyOnce === null ? {} : { exactly_once: exactlyOnce === 'true' }),
      ...(limit === null ? {} : { size_limit_mib: Number(limit) }),
    }
  },
}

export const sqlite = {
  kind: 'sqlite',
  title: 'SQLite file',
  summary: 'Rows of a table in a file on this machine, without a server.',
  guides: [
    ['sqlite.md', 'SQLite files'],
    ['exactly-once.md', 'Exactly once'],
  ],
  examples: [
    "pipectl destinations create orders --url 'sqlite://shop?table=orders' --infer --create-table",
    "pipectl destinations create orders --url 'sqlite://shop?table=orders&exactly_once=true' --column id:number:dedupe_id --column total:number",
  ],
  fields: {
    file: {
      kind: 'text',
      label: 'File',
      hint: 'A name without directory and ending: letters, digits, _ and -, at most 64. The file is tables/WORKSPACE_ID/NAME.sqlite in the data directory. Several destinations can use one file.',
      example: 'shop',
      needed: true,
      maxLength: 64,
      pattern: fileNamePattern,
    },
    table: {
      kind: 'text',
      label: 'Table',
      example: 'events',
      needed: true,
      maxLength: 128,
      flag: { value: 'table', help: 'table or schema.table' },
    },
    exactly_once: {
      kind: 'boolean',
      label: 'Delivery guarantee',
      hint: 'Every record is stored exactly once, also after a crash: pipectl keeps its position in the table _pipectl_lanes of the file, in the same transaction. Otherwise a repeat is stored twice unless a column has the role dedupe_id.',
      options: { true: 'exactly once', false: 'at least once' },
      default: false,
    },
    auto_add_columns: {
      kind: 'boolean',
      label: 'Keys without a column',
      hint: 'A key that no column takes gets a column of its name once 20 sampled records had it, or once its first and last record are 60 s apart: at most 20 columns a day. Records that were delivered before keep NULL.',
      options: { true: 'get a nullable column', false: 'are not stored' },
      default: false,
    },
    size_limit_mib: {
      kind: 'integer',
      label: 'Size limit (MiB)',
      hint: 'The maximum size of the file. When it is full, the lane waits: nothing is deleted.',
      minimum: 1,
      maximum: 4_194_304,
      default: 1024,
    },
  },
  hasColumns: true,
  isDatabase: true,
  hasServerKey: false,
  isTableFile: true,
  hasConcurrency: false,
  isPulled: false,
  receiver: 'table',
  defaultFlush: sendAtOnce,
  url,
  target: ({ file, table }) => `${file}.sqlite ${table}`,
  targetKey: ({ file, table }) => [file, table],
  server: () => null,
  shownServer: () => '',
} as const satisfies TypeFacts
