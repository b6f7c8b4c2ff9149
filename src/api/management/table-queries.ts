/** Queries on the file of a SQLite destination, and the list of its tables (docs/dev/contract.md#queries). */
import { wordsOf } from '../../contract/destination-words.ts'
import { ApiError, validationError } from '../../contract/errors.ts'
import { queryLimits } from '../../contract/query-limits.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { TableList, TableRows } from '../../contract/table-query.ts'
import { QueryFailedError, type QueryProcesses } from '../../destinations/sqlite/query-processes.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { requireDestination } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'tableQueries'>
type Target = Parameters<QueryProcesses['run']>[0]

export function tableQueryUseCases({ metadata, tableQueries }: Deps) {
  const fileOf = async ({ principal, path }: Pick<Call<'queryDestination'>, 'principal' | 'path'>) => {
    const { workspaceId } = principal
    const { destination_type, destination_config } = await requireDestination(metadata, workspaceId, path)
    if (!wordsOf(destination_type).isTableFile) throw new ApiError('not_queryable')
    return { workspaceId, file: String(destination_config.file) }
  }
  const run = async (target: Target): Promise<Buffer> => {
    const { timeoutMs } = target
    return await tableQueries.run(target).catch((error: unknown) => {
      throw error instanceof QueryFailedError ? apiErrorFor(error, timeoutMs) : error
    })
  }
  return {
    /** Returns the response body itself: JSON.parse would round large integers. */
    async queryDestination(call: Call<'queryDestination'>): Promise<Buffer> {
      const { sql, params = {}, limit, timeout_seconds } = call.body
      return await run({
        ...(await fileOf(call)),
        sql,
        params,
        maxRows: limit ?? queryLimits.rows.default,
        maxBytes: resourceLimits.queryResponseBytes,
        timeoutMs: (timeout_seconds ?? queryLimits.seconds.default) * 1_000,
      })
    },

    async listTables(call: Call<'listTables'>): Promise<TableList> {
      const target = await fileOf(call)
      const body = await run({
        ...target,
        sql: columnsOfTables,
        params: {},
        maxRows: resourceLimits.listedTableColumns,
        maxBytes: resourceLimits.queryResponseBytes,
        timeoutMs: queryLimits.seconds.default * 1_000,
      })
      return { file: target.file, tables: tablesIn(JSON.parse(body.toString())) }
    },
  }
}

const columnsOfTables = String.raw`
  SELECT found.name, found.type, item.name, item.type
  FROM sqlite_schema AS found LEFT JOIN pragma_table_info(found.name) AS item
  WHERE found.type IN ('table', 'view') AND found.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND found.name NOT LIKE '\_pipectl\_%' ESCAPE '\'
  ORDER BY found.name, item.cid`

function tablesIn({ rows }: TableRows): TableList['tables'] {
  const tables = new Map<string, TableList['tables'][number]>()
  for (const row of rows) {
    const [table, kind, name, type] = row.map((cell) => (cell === null ? null : String(cell)))
    const found = tables.get(table!) ?? {
      table: table!,
      kind: kind === 'view' ? 'view' : 'table',
      columns: [],
    }
    tables.set(table!, found)
    if (name != null) found.columns.push({ name, type: type ?? '' })
  }
  return [...tables.values()]
}

function apiErrorFor({ reason, message }: QueryFailedError, timeoutMs: number): ApiError {
  const failed = (words: string) => new ApiError('query_failed', { message: words, details: { reason } })
  switch (reason) {
    case 'sql':
      return validationError({ sql: message })
    case 'too_many':
      return new ApiError('query_concurrency_exceeded', { headers: { 'Retry-After': '1' } })
    case 'missing':
      return new ApiError('not_queryable', {
        message: 'The file does not exist yet: it is created with its first table.',
      })
    case 'timeout':
      return failed(
        `The query was stopped after ${timeoutMs / 1_000} s. Make it cheaper, for example with an index or a narrower WHERE, or raise timeout_seconds (at most ${queryLimits.seconds.max}).`,
      )
    case 'memory':
      return failed(
        `The query needs more than ${resourceLimits.queryMemoryBytes / 1024 / 1024} MiB of memory. Let it return or sort less.`,
      )
    case 'locked':
      return failed('The file is locked by another program. Try again.')
    case 'unreadable':
      return failed(`The file cannot be read: ${message}.`)
  }
}
