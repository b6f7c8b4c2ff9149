/** The messages of a pipe over time: filtered, searched, opened in a panel. */
import { useEffect, useMemo, useState } from 'react'
import { Link } from 'wouter'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import { bytes, count, counted } from '../../../../platform/quantities.ts'
import { command, destinationName } from '../../../client/cli-twin.ts'
import { useHourRange, useSetHourRange } from '../../data/hour-range.ts'
import { useOverview } from '../../data/overview.ts'
import { Button, ButtonLink, formStyles } from '../../ui/controls.tsx'
import { FailureNotice, Loading } from '../../ui/failure.tsx'
import { CliTwin, Empty, Page, Section, Skeleton, Soft } from '../../ui/layout.tsx'
import { exactTime } from '../../ui/text.tsx'
import { ReplayDialog, type ReplayRange } from '../replay/replay-dialog.tsx'
import { MessagePanel } from './panel.tsx'
import { type Message, MessageRows } from './rows.tsx'
import {
  type MessageFilters,
  type MessagePage,
  useMessageFilters,
  useMessageSearch,
  useSetMessageFilters,
} from './search.ts'
import { Toolbar } from './toolbar.tsx'

export function MessagesPage() {
  const { data: overview, error } = useOverview()
  const filters = useMessageFilters()
  const pipes = overview?.pipes ?? []
  // Without a pipe in the address: the one with the newest record.
  const pipe =
    filters.pipeId === null ? newestOf(pipes) : pipes.find(({ pipe_id: id }) => id === filters.pipeId)
  return (
    <Page
      title="Messages"
      name="Messages"
      actions={
        pipe === undefined ? null : <ButtonLink to={`/pipes/${pipe.pipe_id}/tail`}>Live tail</ButtonLink>
      }
    >
      {overview === undefined ? (
        <Loading error={error} />
      ) : pipe === undefined ? (
        <NoPipe hasPipes={pipes.length > 0} />
      ) : (
        <Messages key={pipe.pipe_id} pipe={pipe} pipes={pipes} filters={filters} />
      )}
    </Page>
  )
}

function newestOf(pipes: readonly OverviewPipe[]): OverviewPipe | undefined {
  const time = (pipe: OverviewPipe) => (pipe.last_ingest_ts === null ? 0 : Date.parse(pipe.last_ingest_ts))
  return [...pipes].sort((a, b) => time(b) - time(a))[0]
}

function NoPipe({ hasPipes }: { hasPipes: boolean }) {
  return hasPipes ? (
    <Empty title="There is no such pipe">
      <p>
        It was deleted, or the address is wrong. <Link to="/messages">Show the messages of another pipe</Link>
      </p>
    </Empty>
  ) : (
    <Empty title="No pipes yet">
      <p>Messages are the requests that a pipe has accepted. Create a pipe and send records to it.</p>
      <ButtonLink to="/pipes/new" look="primary" changes>
        New pipe
      </ButtonLink>
    </Empty>
  )
}

function Messages({
  pipe,
  pipes,
  filters,
}: {
  pipe: OverviewPipe
  pipes: readonly OverviewPipe[]
  filters: MessageFilters
}) {
  const search = useMessageSearch(pipe.pipe_id, filters)
  const { data, error, refetch } = search
  const messages = useMemo(() => data?.pages.flatMap((page) => page.messages) ?? [], [data])
  const { last_ingest_ts: lastIngest } = pipe
  const isFirstPage = (data?.pages.length ?? 0) <= 1
  // biome-ignore lint/correctness/useExhaustiveDependencies: `lastIngest` changes when there is a new message
  useEffect(() => {
    if (isFirstPage && filters.where === null) void refetch()
  }, [lastIngest])
  const set = useSetMessageFilters()
  const range = useHourRange()
  const [selected, setSelected] = useState<readonly string[]>([])
  const [isReplaying, setReplaying] = useState(false)
  return (
    <>
      <Toolbar pipe={pipe} pipes={pipes} filters={filters} />
      <Section
        title={`Messages of ${pipe.pipe_name}`}
        actions={
          <div className={formStyles.actions}>
            {selected.length === 0 ? null : (
              <Button onClick={() => setSelected([])}>Clear {count(selected.length)} selected</Button>
            )}
            <Button changes disabled={messages.length === 0} onClick={() => setReplaying(true)}>
              {selected.length === 0 ? 'Replay this range …' : `Replay ${count(selected.length)} selected …`}
            </Button>
            <Button disabled={search.isFetching} onClick={() => void refetch()}>
              {search.isFetching ? 'Loading …' : 'Refresh'}
            </Button>
          </div>
        }
      >
        {data === undefined ? (
          search.isPending && error === null ? (
            <Skeleton lines={12} />
          ) : (
            <Loading error={error} />
          )
        ) : (
          <>
            {messages.length === 0 ? (
              <Nothing pipe={pipe} filters={filters} pages={data.pages} />
            ) : (
              <MessageRows pipe={pipe} messages={messages} selected={selected} onSelect={setSelected} />
            )}
            <More search={search} pages={data.pages} />
          </>
        )}
        <CliTwin command={equivalentCommand(pipe, filters, range.name)} />
      </Section>
      {isReplaying && data !== undefined ? (
        <ReplayDialog
          pipe={pipe}
          range={{
            ...replayRange(messages, selected, data.pages[0]?.times),
            isFiltered: hasFilters(filters),
          }}
          onClose={() => setReplaying(false)}
        />
      ) : null}
      {filters.openId === null ? null : (
        <MessagePanel
          msgId={filters.openId}
          ids={messages.map((one) => one.msg_id)}
          onOpen={(msgId) => set({ openId: msgId })}
        />
      )}
    </>
  )
}

function hasFilters({ laneId, state, where, msgId }: MessageFilters): boolean {
  return [laneId, state, where, msgId].some((one) => one !== null)
}

/** From the oldest to the newest selected message; without a selection, the times of the page. */
function replayRange(
  messages: readonly Message[],
  selected: readonly string[],
  times: MessagePage['times'] | undefined,
): Omit<ReplayRange, 'isFiltered'> {
  const seqs = messages.filter((one) => selected.includes(one.msg_id)).map((one) => one.stream_seq)
  if (seqs.length > 0) return { from: Math.min(...seqs), to: Math.max(...seqs) + 1, selected: seqs.length }
  return { from: times?.since ?? 'earliest', to: times?.until ?? 'now', selected: null }
}

/** Says why nothing is shown, and what to do. */
function Nothing({
  pipe,
  filters,
  pages,
}: {
  pipe: OverviewPipe
  filters: MessageFilters
  pages: readonly MessagePage[]
}) {
  const set = useSetMessageFilters()
  const range = useHourRange()
  const setRange = useSetHourRange()
  const hasFilter = hasFilters(filters)
  if (pipe.last_ingest_ts === null && !hasFilter)
    return (
      <Empty title="This pipe has not received any records yet">
        <ButtonLink to={`/pipes/${pipe.pipe_id}`}>Show how to send records</ButtonLink>
      </Empty>
    )
  if (filters.msgId !== null)
    return (
      <Empty title="No message of this pipe has this msg_id">
        <p>It belongs to another pipe, it is no longer kept, or another filter excludes it.</p>
        <Button onClick={() => set({ openId: filters.msgId })}>Look for it in all pipes</Button>
      </Empty>
    )
  const when = range.words.replace(/^of /, 'in ')
  const isEnd = pages.at(-1)?.next === null
  return (
    <Empty title={`${hasFilter ? 'Nothing matches' : 'No messages'} ${when}${isEnd ? '' : ' so far'}`}>
      {isEnd ? (
        <p>
          {hasFilter ? `All ${counted(sum(pages, 'messages'), 'message')} were compared. ` : ''}
          Messages are kept until every lane has delivered them, and then for the retention time of delivered
          messages.
        </p>
      ) : null}
      <div className={formStyles.actions}>
        {isEnd && range.name !== '7d' && range.name !== '30d' ? (
          <Button onClick={() => setRange({ range: '7d' })}>Look at the last 7 days</Button>
        ) : null}
        {hasFilter ? (
          <Button onClick={() => set({ laneId: null, state: null, where: null, msgId: null })}>
            Remove the filters
          </Button>
        ) : null}
      </div>
    </Empty>
  )
}

function sum(pages: readonly MessagePage[], part: 'messages' | 'bytes'): number {
  return pages.reduce((total, { searched }) => total + searched[part], 0)
}

/** How far the search has looked, and the button that continues. */
function More({
  search: { hasNextPage, isFetchingNextPage, fetchNextPage, error },
  pages,
}: {
  search: ReturnType<typeof useMessageSearch>
  pages: readonly MessagePage[]
}) {
  const shown = pages.reduce((total, { messages }) => total + messages.length, 0)
  const looked = sum(pages, 'messages')
  const read = sum(pages, 'bytes')
  const oldest = pages.findLast(({ searched }) => searched.oldest_ts !== null)?.searched.oldest_ts ?? null
  return (
    <div className={formStyles.actions}>
      {hasNextPage ? (
        <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {isFetchingNextPage ? 'Loading …' : shown === 0 ? 'Go on to older messages' : 'Load older messages'}
        </Button>
      ) : null}
      <p role="status">
        <Soft>
          {shown === 0 ? '' : `${count(shown)} shown. `}
          Looked at {counted(looked, 'message')}
          {read > 0 ? ` (${bytes(read)})` : ''}
          {hasNextPage && oldest !== null ? `, back to ${exactTime(oldest)}` : ''}.
          {hasNextPage ? '' : ' There are no older ones in this range.'}
        </Soft>
      </p>
      <FailureNotice failure={error} />
    </div>
  )
}

function equivalentCommand(pipe: OverviewPipe, filters: MessageFilters, range: string | null): string {
  const lane = pipe.lanes.find(({ destination_id: id }) => id === filters.laneId)
  const option = (flag: string, value: string | null) => (value === null ? [] : [flag, value])
  return command(
    'messages',
    lane === undefined ? pipe.pipe_name : destinationName(pipe.pipe_name, lane),
    ...option('--since', range),
    ...option('--state', filters.state),
    ...option('--where', filters.where),
    ...option('--msg-id', filters.msgId),
  )
}
