/** A thread that posts alerts. Responses of receivers are read only here. `poster.ts` starts and ends it. */
import type { DriverSettings } from '../../destinations/driver.ts'
import { postOnce } from '../../destinations/http-endpoint/post.ts'
import type { PostCalls } from '../../observe/alerts/poster.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'

const host = new ThreadHost<DriverSettings, PostCalls>()
/** Never aborted: each post has a deadline, and the thread is terminated when the daemon stops. */
const { signal } = new AbortController()

host.serve({ post: (post) => postOnce(post, host.data, signal) })
