/** Operations that read the tables of a SQLite destination. `management/` serves them. */
import { everyManaged, managed, type Operation, ok, withBody } from './operation.ts'
import { resourceLimits } from './resource-limits.ts'
import { TableList, TableQuery, TableRows } from './table-query.ts'

const { queriesPerWorkspace, queries, queryMemoryBytes } = resourceLimits

export const queryOperations = [
  {
    ...managed('queryDestination', 'nothing'),
    needs: 'read',
    summary: 'Run a read-only query on the file of a SQLite destination',
    description: `The query can read every table of the file and nothing else: the file is opened read-only, and other statements than a query are rejected. It runs in a process of its own with at most ${queryMemoryBytes / 1024 / 1024} MiB of memory; at most ${queriesPerWorkspace} queries run at the same time per workspace, and ${queries} in total. A key that is limited to some pipes cannot query: a file can have tables of every pipe.`,
    request: TableQuery,
    success: ok('The rows', TableRows),
    errors: [
      'destination_not_found',
      'not_queryable',
      'query_failed',
      'query_concurrency_exceeded',
      ...withBody,
    ],
  },
  {
    ...managed('listTables', 'nothing'),
    summary: 'List the tables in the file of a SQLite destination, with their columns',
    success: ok('The tables', TableList),
    errors: [
      'destination_not_found',
      'not_queryable',
      'query_failed',
      'query_concurrency_exceeded',
      ...everyManaged,
    ],
  },
] as const satisfies readonly Operation[]
