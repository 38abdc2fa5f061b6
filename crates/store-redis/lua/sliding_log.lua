-- Sliding log. State: the entries, as a string; the units in them; the units taken or moved to now.
-- Rule: kind, limit, window.
--
-- The string: the width of an entry's units in bytes, the total of units in four bytes, and then the
-- entries, oldest first: an instant of seven bytes and its units. A tenth of what a sorted set takes.
local function sliding_log()
  local it = {}

  local HEADER = 5
  -- Above this many entries, those in the same 64th of a window are merged into one, at the latest
  -- of their times, so that no script runs for long. Stricter by at most that much, never laxer.
  local MOST = 8192

  local FORMAT = { [1] = '>I7I1', [3] = '>I7I3' }

  function it.read(_, raw)
    if #raw < HEADER then return nil end
    local width, units = parse('>I1I4', raw)
    if not FORMAT[width] or (#raw - HEADER) % (7 + width) ~= 0 then return nil end
    return raw, units, 0
  end

  function it.fresh()
    return pack('>I1I4', 1, 0), 0, 0
  end

  local function log_format(entries)
    local width = parse('>I1', entries)
    return FORMAT[width], 7 + width
  end

  -- The log without entries that have left the window, and with entries in the future moved to now.
  local function up_to(rule, now, entries, units, fresh)
    local format, size = log_format(entries)
    local first, last = HEADER + 1, #entries - size + 1
    local cutoff = now - rule[3]
    while first <= last do
      local at, n = parse(format, entries, first)
      if at > cutoff then break end
      first, units = first + size, units - n
    end
    while first <= last do
      local at, n = parse(format, entries, last)
      if at <= now then break end
      last, units, fresh = last - size, units - n, fresh + n
    end
    local changed = first > HEADER + 1 or last < #entries - size + 1
    if changed then entries = entries:sub(1, HEADER) .. entries:sub(first, last + size - 1) end
    return changed, entries, units, fresh
  end

  -- The instant of the nth unit.
  local function nth_unit(entries, n, now)
    local format, size = log_format(entries)
    local at, units
    for place = HEADER + 1, #entries, size do
      at, units = parse(format, entries, place)
      n = n - units
      if n <= 0 then return at end
    end
    return now
  end

  -- Brings a log up to now, and reports what a verdict needs: the count, the newest instant, and
  -- the one whose expiry makes room for the cost.
  function it.tell(out, rule, now, entries, units, fresh, cost)
    local changed
    changed, entries, units, fresh = up_to(rule, now, entries, units, fresh)
    local newest = now
    if fresh == 0 and units > 0 then
      local format, size = log_format(entries)
      newest = parse(format, entries, #entries - size + 1)
    end
    local excess = units + fresh + cost - rule[2]
    local makes_room = now
    if excess > 0 and excess <= units then makes_room = nth_unit(entries, excess, now) end
    local count = #out
    out[count + 1], out[count + 2], out[count + 3] = units + fresh, newest, makes_room
    return changed, entries, units, fresh
  end

  function it.take(rule, _, entries, units, fresh, cost)
    return units + fresh + cost <= rule[2], entries, units, fresh + cost
  end

  -- Entries that had left the window are not written again.
  function it.deny() end

  function it.give(rule, now, entries, units, fresh, amount)
    local _
    _, entries, units, fresh = up_to(rule, now, entries, units, fresh)
    local taken = min(fresh, amount)
    fresh, amount = fresh - taken, amount - taken
    local format, size = log_format(entries)
    while amount > 0 and #entries > HEADER do
      local place = #entries - size + 1
      local at, n = parse(format, entries, place)
      taken = min(n, amount)
      entries, units, amount = entries:sub(1, place - 1), units - taken, amount - taken
      if n > taken then entries = entries .. pack(format, at, n - taken) end
    end
    return true, entries, units, fresh
  end

  -- The entries after `change`, which gets each one and may drop it.
  local function rewritten(entries, width, change)
    local format, size = log_format(entries)
    local copy = { pack('>I1I4', width, 0) }
    for place = HEADER + 1, #entries, size do
      local at, n = parse(format, entries, place)
      change(copy, at, n)
    end
    return table.concat(copy)
  end

  local function widened(entries)
    return rewritten(entries, 3, function(copy, at, n)
      copy[#copy + 1] = pack(FORMAT[3], at, n)
    end)
  end

  local function coarsened(entries, window)
    local cell = ceil(window / 64)
    local before, joined
    return rewritten(entries, 3, function(copy, at, n)
      if before and floor(before / cell) == floor(at / cell) then
        joined = joined + n
      else
        before, joined = at, n
        copy[#copy + 1] = ''
      end
      copy[#copy] = pack(FORMAT[3], at, joined)
    end)
  end

  function it.write(key, rule, now, raw, entries, units, fresh)
    if units + fresh == 0 then return call('DEL', key) end
    local newest = now
    local format, size = log_format(entries)
    if fresh > 0 then
      if fresh > 255 and size == 8 then
        entries = widened(entries)
        format = FORMAT[3]
      end
      entries = entries .. pack(format, now, fresh)
    else
      newest = parse(format, entries, #entries - size + 1)
    end
    if #entries > MOST * size then entries = coarsened(entries, rule[3]) end
    local header = entries:sub(1, 1) .. pack('>I4', units + fresh)
    return keep(key, raw, header .. entries:sub(HEADER + 1), newest + rule[3] - now)
  end

  return it
end
