/** Records that are parked at a pipe because they do not match its schema: the list, or one of them. */
import { Link } from 'wouter'
import { counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { useParam, useSetParams } from '../../data/address.ts'
import { isNotFound } from '../../data/api.ts'
import { Loading } from '../../ui/failure.tsx'
import { CliTwin, Empty, Page, Section, Soft } from '../../ui/layout.tsx'
import { useSearchField } from '../../ui/search-field.tsx'
import styles from '../parked/parked.module.css'
import { PageButtons } from '../parked/table.tsx'
import { Gone, PipeCrumb } from '../pipe/crumbs.tsx'
import { OnePipeParked } from './one.tsx'
import { type PipeParkedPageData, usePipeName, usePipeParkedPage } from './queries.ts'
import { PipeParkedRecords } from './records.tsx'

export function PipeParkedPage({ pipeId, parkedId }: { pipeId: string; parkedId?: string }) {
  return parkedId === undefined ? (
    <ListPage pipeId={pipeId} />
  ) : (
    <OnePipeParked pipeId={pipeId} parkedId={parkedId} />
  )
}

function ListPage({ pipeId }: { pipeId: string }) {
  const search = useSearchField({
    ...{ label: 'Path of the first error', placeholder: '/status', name: 'path' },
    ...{ type: 'text' as const, mono: true, resets: ['after'] },
  })
  const errorPath = search.text.trim()
  const after = useParam('after') || null
  const setParams = useSetParams()
  const { data, error } = usePipeParkedPage(pipeId, errorPath, after)
  if (isNotFound(error)) return <Gone what="pipe" />
  return (
    <Page title="Parked at the pipe" name="Records parked at the pipe" crumbs={<PipeCrumb pipeId={pipeId} />}>
      <Soft>
        Records that do not match the <Link to={`/pipes/${pipeId}/settings/schema`}>schema</Link> of the pipe.
        No destination has received them. You can correct and replay them.{' '}
        {data === undefined || data.count === 0 ? null : `${counted(data.count, 'record')} in total.`}
      </Soft>
      <div className={styles.filters}>{search.field}</div>
      {data === undefined ? (
        <Loading error={error} />
      ) : (
        <List
          pipeId={pipeId}
          page={data}
          errorPath={errorPath}
          after={after}
          onAfter={(next) => setParams({ after: next }, true)}
        />
      )}
    </Page>
  )
}

interface ListProps {
  pipeId: string
  page: PipeParkedPageData
  errorPath: string
  after: string | null
  onAfter: (after: string | null) => void
}

function List({ pipeId, page, errorPath, after, onAfter }: ListProps) {
  const filter = errorPath === '' ? [] : ['--error-path', errorPath]
  return (
    <Section title="In the order of the requests">
      {page.parked.length === 0 ? (
        <Empty title="Nothing is parked">
          <p>{errorPath === '' ? 'No record is parked at this pipe.' : 'No record matches the filter.'}</p>
        </Empty>
      ) : (
        <PipeParkedRecords pipeId={pipeId} parked={page.parked} errorPath={errorPath} />
      )}
      <PageButtons after={after} next={page.next} onAfter={onAfter} />
      <CliTwin command={command('pipes', 'parked', 'list', usePipeName(pipeId), ...filter)} />
    </Section>
  )
}
