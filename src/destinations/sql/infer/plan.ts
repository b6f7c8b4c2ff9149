/** Plans columns, their mapping and the statements that make the table fit, from the observed records and the table. Pure. */
import { resourceLimits } from '../../../contract/resource-limits.ts'
import type { TableProposal } from '../../../contract/table-proposal.ts'
import type { InferRequest } from '../../driver.ts'
import { columnKey } from '../identifiers.ts'
import { automaticFault } from './automatic.ts'
import { ColumnNames } from './names.ts'
import type { Observation, Observed } from './observe.ts'
import { looksLikeId } from './observe.ts'
import { type ProposedType, type Server, seenTypes, type TypeOrNot, typeFor } from './types.ts'
import { plainFacts } from './value.ts'

/** An existing column of the table. */
export interface ExistingColumn {
  name: string
  isNotNull: boolean
  hasDefault: boolean
  isGenerated: boolean
}

export interface NewColumn {
  name: string
  dataType: string
  isPrimaryKey: boolean
}

export interface TablePlan
  extends Pick<
    TableProposal,
    'columns' | 'missing_columns' | 'dedupe_candidates' | 'observations' | 'warnings'
  > {
  /** The missing columns as the statement needs them, in order. */
  newColumns: NewColumn[]
}

export const generatedColumn = '_pipectl_id'
/** MySQL indexes no column without a length; longer ids are rejected as a key. */
const maxMysqlKeyCharacters = 255

/** `existing`: null if the table does not exist or is unknown. */
export function planTable(
  observed: Observed,
  request: InferRequest,
  server: Server,
  existing: readonly ExistingColumn[] | null,
): TablePlan {
  const { dialect } = server
  const planner = new TablePlanner(observed, request, server, existing)
  const { automatic } = request
  const taken = new Set([...(existing ?? []).map(({ name }) => name), ...(automatic?.mapped ?? [])])
  for (const observation of withEnrichment(observed, request)) {
    const fault = automatic === undefined ? null : automaticFault(observation.key, server, taken, automatic)
    planner.add(observation, fault)
    // Two keys of the same records can differ only by case, too.
    if (fault === null) taken.add(observation.key)
  }
  const { plan } = planner
  warnOfLeftOut(plan)
  if (request.keys === null) warnOfUnfilled(plan, existing ?? [], dialect)
  else warnOfUnseen(plan, request.keys)
  if (request.dedupe.kind === 'none')
    plan.warnings.push('Without a dedupe_id a batch that is delivered again is stored again.')
  return plan
}

/** `leftOut`: the reason why the key gets no column. */
type ColumnOrNot = { name: string; dataType: string } | { leftOut: string }

class TablePlanner {
  readonly plan: TablePlan
  readonly #dedupe: InferRequest['dedupe']
  readonly #server: Server
  readonly #isNew: boolean
  readonly #names: ColumnNames
  readonly #existing: ExistingColumns

  constructor(
    observed: Observed,
    { dedupe }: InferRequest,
    server: Server,
    existing: readonly ExistingColumn[] | null,
  ) {
    this.#dedupe = dedupe
    this.#server = server
    this.#isNew = existing === null
    this.#names = new ColumnNames(server.dialect)
    this.#existing = new ExistingColumns(existing ?? [], server.dialect)
    this.plan = {
      newColumns: [],
      columns: [],
      missing_columns: [],
      observations: [],
      dedupe_candidates: candidates(observed),
      warnings: keyWarnings(observed),
    }
    for (const { name } of existing ?? []) this.#names.take(name)
    const usesGenerated = dedupe.kind === 'generated' && (this.#isNew || this.#existing.has(generatedColumn))
    if (usesGenerated) addGenerated(this.plan, server, this.#isNew)
    if (this.#isNew) this.#names.take(generatedColumn)
  }

  /** `fault`: why the key gets no column. */
  add(observation: Observation, fault: string | null): void {
    const type = typeFor(observation, this.#server)
    const column = fault === null ? this.#columnFor(observation.key, type) : { leftOut: fault }
    const isLeftOut = 'leftOut' in column
    this.plan.observations.push({
      key: observation.key,
      seen: observation.seen,
      nulls: observation.kinds.null ?? 0,
      types: seenTypes(observation),
      column_name: isLeftOut ? null : column.name,
      proposed_type: isLeftOut ? null : column.dataType,
      reason: isLeftOut ? column.leftOut : type.reason,
    })
  }

  #columnFor(key: string, type: TypeOrNot): ColumnOrNot {
    if (key === '') return { leftOut: 'A mapping cannot name an empty key.' }
    if (type.dataType === null) return { leftOut: type.reason }
    if (!isNameable(key, this.#server))
      return { leftOut: 'A mapping cannot name a key with a NUL character or half a surrogate pair.' }
    const isKey = this.#dedupe.kind === 'key' && this.#dedupe.key === key
    const name = this.#existing.take(key)
    const column = name === null ? this.#newColumn(key, type, isKey) : { name, dataType: type.dataType }
    if ('name' in column) this.plan.columns.push(mapping(column.name, key, type, isKey))
    return column
  }

  #newColumn(key: string, type: ProposedType, isKey: boolean): ColumnOrNot {
    const { dialect } = this.#server
    const most = dialect === 'mysql' ? resourceLimits.inferredMysqlColumns : resourceLimits.inferredColumns
    if (this.plan.columns.length >= most)
      return { leftOut: `Left out: a proposed table has at most ${most} columns.` }
    const name = this.#names.nameFor(key)
    const dataType = isKey ? keyType(type, this.#server) : type.dataType
    this.plan.missing_columns.push(name)
    this.plan.newColumns.push({ name, dataType, isPrimaryKey: isKey && this.#isNew })
    return { name, dataType }
  }
}

/** Why the key cannot be the primary key, or null. */
export function dedupeFault(observed: Observed, request: InferRequest, { dialect }: Server): string | null {
  const { dedupe } = request
  if (dedupe.kind !== 'key') return null
  const found = observed.keys.get(dedupe.key)
  if (found === undefined) return 'no record of the sample has this key'
  if (found.seen < observed.records || (found.kinds.null ?? 0) > 0)
    return 'is missing or null in records of the sample, and every record needs a dedupe_id'
  const { boolean = 0, object = 0, array = 0, decimal = 0 } = found.kinds
  if (boolean + object + array + decimal > 0)
    return 'has values that cannot be ids: only text and whole numbers can'
  const kinds = Object.keys(found.kinds)
  if (kinds.includes('integer') && kinds.length > 1) return 'is a number in some records and text in others'
  if (dialect === 'mysql' && found.longestBytes > maxMysqlKeyCharacters + 2)
    return `has values of more than ${maxMysqlKeyCharacters} bytes, which MySQL cannot have as a key`
  if (found.longestBytes > 2_000) return 'has values of more than 2000 bytes, which are too long for a key'
  return null
}

function addGenerated(plan: TablePlan, { dialect, isMariadb }: Server, isNew: boolean): void {
  const dataType = generatedType[dialect](isMariadb)
  plan.columns.push({
    column_name: generatedColumn,
    column_type: 'string',
    source_field: null,
    semantic_role: 'dedupe_id',
    nullable: false,
  })
  if (!isNew) return
  plan.missing_columns.push(generatedColumn)
  plan.newColumns.push({ name: generatedColumn, dataType, isPrimaryKey: true })
}

const generatedType: Record<Server['dialect'], (isMariadb: boolean) => string> = {
  postgresql: () => 'text',
  mysql: (isMariadb) => binaryText(64, isMariadb),
  sqlite: () => 'TEXT',
}

/** The usual collations treat "a" and "A" as equal: two records would become one. */
function binaryText(characters: number, isMariadb: boolean): string {
  const collation = isMariadb ? 'utf8mb4_nopad_bin' : 'utf8mb4_bin'
  return `varchar(${characters}) CHARACTER SET utf8mb4 COLLATE ${collation}`
}

function keyType({ dataType }: ProposedType, { dialect, isMariadb }: Server): string {
  const isText = dataType === 'longtext' || dataType.startsWith('varchar')
  return dialect === 'mysql' && isText ? binaryText(maxMysqlKeyCharacters, isMariadb) : dataType
}

function mapping(
  name: string,
  key: string,
  { columnType }: ProposedType,
  isKey: boolean,
): TablePlan['columns'][number] {
  return {
    column_name: name,
    column_type: columnType,
    // A dedupe_id without one is a generated id.
    source_field: name === key && !isKey ? null : key,
    semantic_role: isKey ? 'dedupe_id' : null,
    nullable: !isKey,
  }
}

/** Adds the keys that the pipe adds to every new record, even if the sample lacks them. */
function withEnrichment({ keys }: Observed, { enriched, keys: wanted }: InferRequest): Observation[] {
  const all = new Map(keys)
  for (const { key, kind } of enriched) {
    if (all.has(key)) continue
    const facts = { ...plainFacts, wholeDigits: 3, fractionDigits: 10, isInt64: kind === 'integer' }
    all.set(key, { key, seen: 0, kinds: { [kind]: 1 }, facts, longestBytes: 0, repeated: null })
  }
  return [...all.values()].filter(({ key }) => wanted === null || wanted.includes(key))
}

/** False for a key with NUL (not allowed in a parameter) or invalid text (not allowed in a mapping). */
function isNameable(key: string, { dialect }: Server): boolean {
  return !/\p{Cs}/u.test(key) && !(dialect === 'postgresql' && key.includes('\0'))
}

function candidates({ keys, records }: Observed): string[] {
  return [...keys.values()]
    .filter(({ key, seen, repeated, kinds }) => {
      const isScalar = Object.keys(kinds).every((kind) => ['integer', 'string', 'uuid'].includes(kind))
      return looksLikeId(key) && records > 1 && seen === records && repeated === 0 && isScalar
    })
    .map(({ key }) => key)
    .slice(0, 20)
}

function keyWarnings({ longKeys, furtherKeys }: Observed): string[] {
  const warnings: string[] = []
  if (longKeys > 0)
    warnings.push('Some records have keys of more than 1000 characters, which no mapping can name.')
  if (furtherKeys > 0)
    warnings.push(
      `The records have more than ${resourceLimits.inferredKeys} keys: the others were not checked.`,
    )
  return warnings
}

function warnOfLeftOut({ observations, warnings }: TablePlan): void {
  const left = observations.filter(({ column_name }) => column_name === null).length
  if (left > 0) warnings.push(`${left} of the keys get no column; observations explain why.`)
}

function warnOfUnseen({ observations, warnings }: TablePlan, keys: readonly string[]): void {
  const seen = new Set(observations.map(({ key }) => key))
  for (const key of keys.filter((one) => !seen.has(one)).slice(0, 5))
    warnings.push(`No record has the key ${JSON.stringify(key.slice(0, 100))}.`)
}

function warnOfUnfilled(
  plan: TablePlan,
  existing: readonly ExistingColumn[],
  dialect: Server['dialect'],
): void {
  const mapped = new Set(plan.columns.map(({ column_name }) => columnKey(dialect, column_name)))
  const unfilled = existing.filter(
    ({ name, isNotNull, hasDefault, isGenerated }) =>
      isNotNull && !hasDefault && !isGenerated && !mapped.has(columnKey(dialect, name)),
  )
  if (unfilled.length > 0)
    plan.warnings.push(
      `No key fills ${unfilled.map(({ name }) => JSON.stringify(name)).join(', ')}, which must have a value: every record would be rejected.`,
    )
}

/** Finds the table's column for a key: by the same name, otherwise by the lower-case name. */
class ExistingColumns {
  readonly #dialect: Server['dialect']
  readonly #free = new Map<string, string>()
  readonly #all = new Set<string>()

  constructor(columns: readonly ExistingColumn[], dialect: Server['dialect']) {
    this.#dialect = dialect
    for (const { name, isGenerated } of columns) {
      this.#all.add(name)
      if (!isGenerated && name !== generatedColumn) this.#free.set(columnKey(dialect, name), name)
    }
  }

  has(name: string): boolean {
    return this.#all.has(name)
  }

  take(key: string): string | null {
    for (const wanted of [columnKey(this.#dialect, key), key.toLowerCase()]) {
      const found = this.#free.get(wanted)
      if (found === undefined) continue
      this.#free.delete(wanted)
      return found
    }
    return null
  }
}
