-- Windows, each with a count of its own.
local plain_fixed_window, plain_sliding_window = {}, {}

-- The count at a key, and for how long it matters. Too large a refund may leave a negative count,
-- which counts as none.
local function counter(key, lasts)
  local raw = call('GET', key)
  local stored = raw and raw:match('^%-?%d+$') and tonumber(raw)
  if raw and not (stored and math.abs(stored) <= LARGEST) then damaged = true end
  return { key = key, stored = stored, count = max(0, stored or 0), lasts = lasts }
end

local function mend(it)
  if it.stored then outlive(it.key, it.lasts) end
end

local function forget(it)
  call('DEL', it.key)
  it.stored, it.count = nil, 0
end

local function count_to(it, count)
  if count == 0 then return forget(it) end
  call('INCRBY', it.key, decimal(count - (it.stored or 0)))
  it.stored, it.count = count, count
  mend(it)
end

function plain_fixed_window.open(it)
  local index = floor(now / it.window)
  return counter(name_of(it, index), (index + 1) * it.window - now)
end

function plain_fixed_window.tell(current)
  return current.count, 0, 0
end

function plain_fixed_window.fits(it, current, cost)
  return current.count + cost <= it.limit
end

function plain_fixed_window.take(_, current, cost)
  count_to(current, current.count + cost)
end

function plain_fixed_window.deny(it, current, cost)
  if it.counts_denied and cost <= it.limit then
    count_to(current, min(current.count + cost, 2e15))
  else
    mend(current)
  end
end

function plain_fixed_window.give(_, current, amount)
  if current.stored then count_to(current, max(0, current.count - amount)) end
end

plain_fixed_window.forget = forget

-- A window matters until the end of the next one.
function plain_sliding_window.open(it)
  local index = floor(now / it.window)
  local left = (index + 1) * it.window - now
  return {
    left = left,
    previous = counter(name_of(it, index - 1), left),
    current = counter(name_of(it, index), left + it.window),
  }
end

function plain_sliding_window.tell(pair)
  return pair.previous.count, pair.current.count, 0
end

function plain_sliding_window.fits(it, pair, cost)
  local room = it.limit - pair.current.count - cost
  return room >= 0 and at_most(pair.previous.count, pair.left, room, it.window)
end

function plain_sliding_window.take(_, pair, cost)
  count_to(pair.current, pair.current.count + cost)
  mend(pair.previous)
end

function plain_sliding_window.deny(_, pair)
  mend(pair.current)
  mend(pair.previous)
end

function plain_sliding_window.give(_, pair, amount)
  local rest = max(0, amount - pair.current.count)
  plain_fixed_window.give(nil, pair.current, amount)
  plain_fixed_window.give(nil, pair.previous, rest)
end

function plain_sliding_window.forget(pair)
  forget(pair.current)
  forget(pair.previous)
end
