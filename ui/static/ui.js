// The page: a list of JobSets that follows the stream, one JobSet, and a map. All texts of the cluster are strangers':
// they become text nodes, never markup (the Content-Security-Policy forbids that, too).

const MOST_ROWS = 500
const DETAIL_PAUSE = 1000
const EXPLAIN_PAUSE = 5000
const SHAPES = {
  Running: '▶\uFE0E', Completed: '✓', Failed: '✕', Waiting: '◷', Restarting: '↻', Starting: '◔', Suspended: '‖',
  'Being deleted': '⌫', 'Managed elsewhere': '⇢', Scheduled: '✓', 'Not scheduled yet': '◷',
}
const ORDER = ['Keeps failing', 'Restarting', 'Waiting', 'Running', 'Suspended', 'Managed elsewhere', 'Being deleted', 'Failed', 'Completed']

const byId = id => document.getElementById(id)
const rows = new Map()
const lines = new Map()
let notes = []

// An element with attributes and children; children are elements or texts.
function h(tag, attributes, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes ?? {})) made.setAttribute(name, value)
  made.append(...children.flat(2).filter(child => child !== null && child !== undefined && child !== ''))
  return made
}

// The class of a state, for its colour.
const KINDS = { 'Not scheduled yet': 'Waiting', 'Keeps failing': 'Failed' }
const kindOf = word => KINDS[word] ?? (word in SHAPES && !word.includes(' ') ? word : 'other')

function state(word) {
  return h('span', { class: `state ${kindOf(word)}` }, h('span', { class: 'shape', 'aria-hidden': 'true' }, SHAPES[word] ?? '·'), word)
}

function duration(seconds) {
  const whole = Math.max(Math.floor(seconds), 0)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min`
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole % 86400 / 3600)} h`
}

const counted = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`
const between = (from, to) => ((to ? Date.parse(to) : Date.now()) - Date.parse(from)) / 1000
// As the log, kubectl and other people have it.
const clock = moment => `${new Date(moment).toISOString().slice(0, 19).replace('T', ' ')} UTC`

// Time since a moment; it goes on by itself.
function since(moment) {
  return moment ? h('time', { datetime: moment, title: clock(moment), class: 'number' }, duration(between(moment))) : ''
}

setInterval(() => {
  for (const time of document.querySelectorAll('time')) time.textContent = duration(between(time.dateTime))
}, 5000)

const keyOf = row => `${row.namespace}/${row.name}`
const linkTo = (namespace, name) => `#/set/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`

// The list

function lineOf(row) {
  const many = row.restarts || row.maxRestarts
  const restarts = many ? `${row.restarts}${row.maxRestarts ? ` of ${row.maxRestarts}` : ''}` : ''
  return [
    h('td', {}, state(row.state)),
    h('td', {}, h('a', { class: 'name', href: linkTo(row.namespace, row.name) }, row.name), ' ', h('span', { class: 'soft' }, row.namespace)),
    h('td', { class: 'number', 'data-label': 'Jobs' }, `${row.settled} of ${row.jobs}`),
    h('td', row.stage ? { 'data-label': 'Stage' } : { class: 'nothing' }, row.stage || '–'),
    h('td', many ? { class: 'number', 'data-label': 'Restarts' } : { class: 'number nothing' }, restarts || '–'),
    h('td', { 'data-label': 'Age' }, since(row.created)),
    h('td', row.cause ? { class: 'cause', 'data-label': 'Cause' } : { class: 'nothing' }, row.cause || '–'),
  ]
}

function showList() {
  const wanted = byId('filter').value.trim().toLowerCase().split(/\s+/)
  const text = row => `${row.namespace}/${row.name} ${row.state}`.toLowerCase()
  const found = [...rows.values()].filter(row => wanted.every(word => text(row).includes(word)))
  found.sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || (keyOf(a) < keyOf(b) ? -1 : 1))
  const body = byId('rows')
  const shown = found.slice(0, MOST_ROWS)
  const keep = new Set(shown.map(keyOf))
  for (const [key, line] of lines) if (!keep.has(key)) { line.element.remove(); lines.delete(key) }
  shown.forEach((row, place) => {
    const line = lines.get(keyOf(row)) ?? { element: h('tr') }
    if (line.row !== row) { line.row = row; line.element.replaceChildren(...lineOf(row)) }
    lines.set(keyOf(row), line)
    if (body.children[place] !== line.element) body.insertBefore(line.element, body.children[place] ?? null)
  })
  const counts = new Map()
  for (const row of rows.values()) counts.set(row.state, (counts.get(row.state) ?? 0) + 1)
  byId('counts').textContent = ORDER.filter(word => counts.has(word)).map(word => `${counts.get(word)} ${word}`).join(', ')
  const left = found.length - shown.length
  byId('empty').hidden = shown.length > 0 && !left
  byId('empty').textContent = left ? `${left} more: filter to see them` : rows.size ? 'No JobSet matches the filter' : 'There are no JobSets'
}

byId('filter').addEventListener('input', showList)

// One JobSet

const opened = { key: '', busy: false, again: false, explained: 0, explanation: null, timer: 0 }

const get = async path => {
  const answer = await fetch(path)
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`)
  return answer.json()
}

const pathOf = key => `api/sets/${key.split('/').map(encodeURIComponent).join('/')}`

async function load() {
  if (opened.busy) { opened.again = true; return }
  const key = opened.key
  opened.busy = true
  opened.again = false
  try {
    const detail = await get(pathOf(key))
    if (key === opened.key) showSet(detail)
  } catch (error) {
    if (key === opened.key) byId('set').replaceChildren(h('p', {}, `JobSet ${key}: ${error.message}`))
  }
  explain(key)
  setTimeout(() => { opened.busy = false; if (opened.again && opened.key) load() }, DETAIL_PAUSE)
}

async function explain(key) {
  clearTimeout(opened.timer)
  const pause = opened.explained + EXPLAIN_PAUSE - Date.now()
  if (pause > 0) { opened.timer = setTimeout(explain, pause, key); return }
  opened.explained = Date.now()
  let made
  try {
    const found = await get(`${pathOf(key)}/explanation`)
    const again = found.newJobSet ? [h('p', { class: 'soft' }, `A new JobSet: ${found.newJobSet}`)] : []
    made = [tree([found]), again, found.notLookedAt.map(what => h('p', { class: 'soft' }, `Not looked at: ${what}`))]
  } catch (error) {
    made = [h('p', {}, `No explanation: ${error.message}`)]
  }
  if (key !== opened.key) return
  opened.explanation = made.flat()
  byId('why')?.replaceChildren(...opened.explanation)
}

function tree(findings) {
  return h('ul', { class: 'tree' }, findings.map(one => h('li', {},
    one.level === 'fine' ? '' : h('span', { class: `level ${one.level}` }, one.level), ' ', one.what, ' ',
    one.since ? h('span', { class: 'soft' }, 'for ', since(one.since)) : '',
    one.remedy ? h('span', { class: 'fix' }, `To fix: ${one.remedy}`, one.commands.map(command)) : '',
    one.because.length ? tree(one.because) : '')))
}

function command(text) {
  const button = h('button', { type: 'button', 'aria-label': `Copy: ${text}` }, 'Copy')
  button.addEventListener('click', async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = 'Copied' } catch { button.textContent = 'Not copied' }
    setTimeout(() => { button.textContent = 'Copy' }, 2000)
  })
  return h('span', { class: 'command' }, h('code', {}, text), ' ', button)
}

const card = (title, ...children) => h('section', { class: 'card' }, h('h3', {}, title), ...children)

function showSet(set) {
  const facts = [
    ['Jobs ready or done', `${set.settled} of ${set.jobs}`],
    ['Restarts', set.maxRestarts ? `${set.restarts} of ${set.maxRestarts}` : `${set.restarts}`],
    ['Stage', set.stage],
    ['Age', since(set.created)],
  ].filter(([, value]) => value)
  byId('set').replaceChildren(
    h('h2', {}, set.name, ' ', h('span', { class: 'soft' }, set.namespace)),
    h('p', { class: 'facts' }, h('span', {}, state(set.state)), facts.map(([name, value]) => h('span', {}, `${name} `, h('b', {}, value)))),
    card('Why', h('div', { id: 'why' }, opened.explanation ?? h('p', { class: 'soft' }, 'looking'))),
    card(set.stages.length > 1 ? 'Stages, in order' : 'ReplicatedJobs', stages(set.stages)),
    card('Attempts', ...attempts(set.timeline)),
    ...set.maps.map(map => card(`Which Job is in which ${map.noun}`, ...domains(map))),
    ...set.groups.length ? [card('Gangs', groups(set))] : [],
    card('Jobs', jobs(set)),
    card('Conditions', conditions(set)),
  )
}

// Each stage is a box; where all start together, each ReplicatedJob is.
function stages(all) {
  const boxes = all.length > 1
    ? all.map((stage, place) => [h('h4', {}, `${place + 1}. ${stage.name}`), stage.replicatedJobs.map(replicatedJob)])
    : all.flatMap(stage => stage.replicatedJobs.map(replicatedJob))
  return h('div', { class: 'stages' }, boxes.map(box => h('div', { class: 'stage' }, box)))
}

function replicatedJob(rjob) {
  const share = (count, kind) => {
    const part = h('i', { class: kind })
    part.style.width = `${rjob.replicas ? 100 * count / rjob.replicas : 0}%`
    return part
  }
  const kinds = ['ready', 'missing', 'used', 'active', 'succeeded', 'failed', 'suspended'].filter(kind => rjob[kind])
  const counts = kinds.length ? `: ${kinds.map(kind => `${rjob[kind]} ${kind}`).join(', ')}` : ''
  return h('div', {},
    h('p', {}, h('b', {}, rjob.name), ' ', state(rjob.state)),
    h('div', { class: 'meter', 'aria-hidden': 'true' }, share(rjob.succeeded, 'done'), share(rjob.ready, 'ready'), share(rjob.failed, 'failed')),
    h('p', { class: 'soft' }, `${counted(rjob.replicas, 'Job')} of ${counted(rjob.podsPerJob, 'pod')}${counts}`),
    rjob.after.length ? h('p', { class: 'soft' }, `starts after ${rjob.after.join(', ')}`) : '')
}

function attempts(line) {
  const known = line.attempts.filter(one => one.from)
  const parts = known.map(one => {
    const part = h('span', { class: kindOf(one.outcome) }, `${SHAPES[one.outcome] ?? '·'} ${one.attempt}`)
    part.style.flexGrow = Math.max(between(one.from, one.to), 1)
    return part
  })
  const end = known.at(-1)?.to
  const last = line.lastRestart
  return [
    known.length ? h('div', { 'aria-hidden': 'true' },
      h('div', { class: 'bar' }, parts),
      h('p', { class: 'ends soft' }, h('span', {}, clock(known[0].from)), h('span', {}, end ? clock(end) : 'now'))) : '',
    h('ul', { class: 'attempts' }, line.attempts.toReversed().map(attempt)),
    line.leftOut ? h('p', { class: 'soft' }, `${counted(line.leftOut, 'earlier attempt')} not recorded`) : '',
    last && last.seconds !== null ? h('p', { class: 'soft' }, `The last restart took ${duration(last.seconds)}`) : '',
  ]
}

function attempt(one) {
  const said = one.message || one.reason || ''
  const isNew = text => !said.includes(text) // a message mostly names what failed
  const objects = ['job', 'pod', 'node', 'container'].filter(kind => one[kind] && isNew(one[kind])).map(kind => `${kind} ${one[kind]}`)
  const exit = one.exitCode === null || one.exitCode === undefined ? '' : `exit code ${one.exitCode}`
  const code = isNew(exit) ? exit : ''
  const facts = [...objects, one.why ? `${code}${code && ' '}(${one.why})` : code, said].filter(Boolean).join(', ')
  const ended = one.from && one.to ? [` after ${duration(between(one.from, one.to))}, ${clock(one.to)}`] : []
  const goesOn = one.from && !one.to ? [' for ', since(one.from)] : []
  return h('li', {},
    h('b', {}, `Attempt ${one.attempt} `), state(one.outcome), h('span', { class: 'soft' }, ended, goesOn),
    facts ? h('div', {}, facts) : '')
}

function domains(map) {
  const chips = of => h('ul', {}, of.jobs.map(job => h('li', job.own ? { class: 'own' } : {},
    job.own && opened.key ? job.job : h('a', { href: linkTo(job.namespace, job.jobset) }, `${job.namespace}/${job.job}`),
    h('span', { class: 'soft number' }, ` ${job.ready} of ${counted(job.pods, 'pod')} ready`))),
    of.jobsLeftOut ? h('li', {}, counted(of.jobsLeftOut, 'more Job')) : '')
  const boxes = map.domains.map(of => h('div', { class: 'domain' },
    h('h4', {}, of.name, ' ', h('span', { class: 'soft' }, counted(of.nodes, 'node'))),
    of.jobs.length ? chips(of) : h('span', { class: 'soft' }, map.scope ? `– no JobSet of ${map.scope}` : '– no JobSet')))
  if (map.waiting.jobs.length) {
    boxes.push(h('div', { class: 'domain none' }, h('h4', {}, `◷ no ${map.noun} yet`), chips(map.waiting)))
  }
  return [
    h('div', { class: 'domains' }, boxes),
    h('p', { class: 'soft' }, [
      `Node label ${map.topology}`,
      map.domains.length ? '' : 'no node that is known has it',
      map.nodesWithoutLabel && map.domains.length ? `${counted(map.nodesWithoutLabel, 'node')} without it` : '',
      map.domainsLeftOut ? `${map.domainsLeftOut} more not shown` : '',
    ].filter(Boolean).join('; ')),
  ]
}

// Cells carry the heading of their column, for narrow windows.
function table(heads, lines) {
  const cell = (content, place) => h('td', content === '' ? { class: 'nothing' } : { 'data-label': heads[place] }, content)
  return h('table', {},
    h('thead', {}, h('tr', {}, heads.map(head => h('th', {}, head)))),
    h('tbody', {}, lines.map(line => h('tr', {}, line.map(cell)))))
}

function groups(set) {
  const lines = set.groups.map(of => [of.name, of.gang ? `gang of ${of.least}` : 'one by one', of.parent, of.state ? state(of.state) : '–', of.message])
  if (set.groupsLeftOut) lines.push([counted(set.groupsLeftOut, 'more group')])
  return table(['Group', 'Scheduled', 'Part of', 'State', 'The scheduler says'], lines)
}

function jobs(set) {
  const lines = set.jobList.map(job => [
    job.name, state(job.state), `${job.ready + job.succeeded} of ${job.pods}`, job.attempt, job.message,
  ])
  if (set.jobsLeftOut) lines.push([counted(set.jobsLeftOut, 'more Job')])
  return lines.length ? table(['Job', 'State', 'Pods ready or done', 'Attempt', 'Failure'], lines) : h('p', { class: 'soft' }, 'There are none')
}

function conditions(set) {
  const lines = set.conditions.map(of => [of.type, of.status, of.reason, of.message, since(of.since)])
  return lines.length ? table(['Condition', 'Status', 'Reason', 'Message', 'For'], lines) : h('p', { class: 'soft' }, 'There are none')
}

// The map of the whole cluster

const drawn = { topology: '', busy: false, again: false }

async function loadMap() {
  if (drawn.busy) { drawn.again = true; return }
  drawn.busy = true
  drawn.again = false
  let made
  try {
    const found = await get(`api/map?topology=${encodeURIComponent(drawn.topology)}`)
    made = found.map ? mapOf(found) : [h('p', {}, 'No JobSet is placed by a topology')]
  } catch (error) {
    made = [h('p', {}, `No map: ${error.message}`)]
  }
  if (!byId('map').hidden) byId('map').replaceChildren(...made)
  setTimeout(() => { drawn.busy = false; if (drawn.again && !byId('map').hidden) loadMap() }, DETAIL_PAUSE)
}

function mapOf({ topologies, map }) {
  const choice = h('select', {}, topologies.map(key => h('option', key === map.topology ? { selected: '' } : {}, key)))
  choice.addEventListener('change', () => { location.hash = `#/map/${encodeURIComponent(choice.value)}` })
  return [h('div', { class: 'tools' }, h('label', {}, 'Topology ', choice)), ...domains(map)]
}

// What is open

// The parts of `#/view/first/second`; none of what cannot be decoded.
function parts() {
  try {
    return location.hash.split('/').map(decodeURIComponent)
  } catch {
    return []
  }
}

function route() {
  const [, view, first, second] = parts()
  const known = view === 'set' && first && second ? 'set' : view === 'map' ? 'map' : 'list'
  for (const id of ['list', 'set', 'map']) byId(id).hidden = id !== known
  for (const [id, link] of [['list', 'to-list'], ['map', 'to-map']]) {
    byId(link).toggleAttribute('aria-current', id === known)
  }
  Object.assign(opened, { key: known === 'set' ? `${first}/${second}` : '', explained: 0, explanation: null })
  document.title = opened.key ? `${second}: JobSet` : 'JobSets'
  if (known === 'set') { byId('set').replaceChildren(h('p', { class: 'soft' }, 'looking')); load() }
  if (known === 'map') { drawn.topology = first ?? ''; loadMap() }
}

window.addEventListener('hashchange', route)

// The stream

function listen() {
  const stream = new EventSource('api/events')
  const live = (text, lost) => { byId('live').textContent = text; byId('live').classList.toggle('lost', lost) }
  stream.addEventListener('open', () => live('live', false))
  stream.addEventListener('error', () => {
    live('connection lost, trying again', true)
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 5000)
  })
  stream.addEventListener('sets', event => {
    const news = JSON.parse(event.data)
    if (news.whole) rows.clear()
    for (const key of news.gone) rows.delete(key)
    for (const row of news.rows) rows.set(keyOf(row), row)
    showNotes(news.notes)
    showList()
    if (opened.key && (news.whole || news.gone.includes(opened.key) || news.rows.some(row => keyOf(row) === opened.key))) load()
    if (!byId('map').hidden) loadMap()
  })
}

function showNotes(found) {
  if (JSON.stringify(found) === JSON.stringify(notes)) return
  notes = found
  byId('notes').replaceChildren(...notes.map(note => h('li', {}, note)))
}

route()
listen()
