/** Lists the parked records of a lane, with a filter by error code and reason. */
import type { ParkedReason } from '../../../../contract/parked.ts'
import { counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { filterOptions, isFiltered, type ParkedFilter } from '../../../client/parked.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { useParam, useSetParams } from '../../data/address.ts'
import { isNotFound } from '../../data/api.ts'
import { Loading } from '../../ui/failure.tsx'
import { Choice } from '../../ui/fields.tsx'
import { CliTwin, Empty, Page, Section, Soft } from '../../ui/layout.tsx'
import { useSearchField } from '../../ui/search-field.tsx'
import { Gone } from '../pipe/crumbs.tsx'
import { LaneCrumb, useLane, useReference } from './crumbs.tsx'
import styles from './parked.module.css'
import { type ParkedPageData, useParkedPage } from './queries.ts'
import { ParkedRecords } from './records.tsx'
import { PageButtons } from './table.tsx'

/** The schemas of the contract are not part of a page, so its list is not imported. */
const reasons: readonly (readonly [ParkedReason, string])[] = [
  ['permanent_error', 'rejected'],
  ['skipped', 'skipped'],
]

export function ParkedListPage(place: LaneRef) {
  const code = useSearchField({
    label: 'Error code',
    name: 'code',
    type: 'text',
    mono: true,
    resets: ['after'],
  })
  const given = useParam('reason')
  const reason = reasons.find(([one]) => one === given)?.[0]
  const after = useParam('after') || null
  const setParams = useSetParams()
  const error_code = code.text.trim() || undefined
  const filter = { error_code, reason }
  const { data, error } = useParkedPage(place, filter, after)
  if (isNotFound(error)) return <Gone what="destination" />
  return (
    <Page title="Parked" name="Parked records" crumbs={<LaneCrumb place={place} />}>
      <Introduction place={place} />
      <div className={styles.filters}>
        {code.field}
        <ReasonFilter reason={reason} onReason={(next) => setParams({ reason: next, after: null })} />
      </div>
      {data === undefined ? (
        <Loading error={error} />
      ) : (
        <List
          place={place}
          page={data}
          filter={filter}
          after={after}
          onAfter={(next) => setParams({ after: next }, true)}
        />
      )}
    </Page>
  )
}

function Introduction({ place }: { place: LaneRef }) {
  const total = useLane(place)?.lane.parked_records ?? null
  return (
    <Soft>
      Records that the destination rejected permanently, or that were skipped, are kept here while the lane
      continues. You can correct and replay them.{' '}
      {total === null
        ? null
        : `${counted(total, 'record')} of this lane ${total === 1 ? 'is' : 'are'} parked.`}
    </Soft>
  )
}

function ReasonFilter({
  reason,
  onReason,
}: {
  reason: ParkedReason | undefined
  onReason: (reason: ParkedReason | null) => void
}) {
  return (
    <Choice
      label="Reason"
      value={reason ?? 'all'}
      options={[['all', 'rejected or skipped'], ...reasons]}
      onValue={(next) => onReason(next === 'all' ? null : next)}
    />
  )
}

interface ListProps {
  place: LaneRef
  page: ParkedPageData
  filter: ParkedFilter
  /** Null: the first page. */
  after: string | null
  onAfter: (after: string | null) => void
}

function List({ place, page, filter, after, onAfter }: ListProps) {
  const { parked, next } = page
  return (
    <Section title="In message order">
      {parked.length === 0 ? (
        <NothingParked hasFilter={isFiltered(filter)} />
      ) : (
        <ParkedRecords place={place} parked={parked} filter={filter} />
      )}
      <PageButtons after={after} next={next} onAfter={onAfter} />
      <ListCommand place={place} filter={filter} />
    </Section>
  )
}

function NothingParked({ hasFilter }: { hasFilter: boolean }) {
  return (
    <Empty title="Nothing is parked">
      <p>{hasFilter ? 'No record matches the filter.' : 'This lane has no rejected or skipped records.'}</p>
    </Empty>
  )
}

function ListCommand({ place, filter }: Pick<ListProps, 'place' | 'filter'>) {
  const reference = useReference(place)
  return <CliTwin command={command('parked', 'list', reference, ...filterOptions(filter))} />
}
