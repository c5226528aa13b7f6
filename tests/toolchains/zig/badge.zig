//! `../README.md` describes this controller.

const std = @import("std");
const wit = @import("controller");

const allocator = std.heap.c_allocator;

const Namespace = struct {
    metadata: struct {
        deletionTimestamp: ?[]const u8 = null,
        labels: struct { badge: ?[]const u8 = null } = .{},
    },
};

export fn exports_controller_reconcile(
    key: *wit.controller_key_t,
    lister: wit.controller_own_lister_t,
    ret: *wit.controller_outcome_t,
    err: *wit.controller_reconcile_error_t,
) bool {
    ret.* = .{};
    const borrowed = wit.pintle_controller_view_borrow_lister(lister);
    defer wit.pintle_controller_view_lister_drop_own(lister);
    defer key.free();
    reconcile(key, borrowed, ret) catch |failure| {
        err.* = .{ .tag = wit.PINTLE_CONTROLLER_TYPES_RECONCILE_ERROR_TERMINAL, .val = .{ .terminal = string(@errorName(failure)) } };
        return false;
    };
    return true;
}

fn reconcile(key: *wit.controller_key_t, lister: wit.pintle_controller_view_borrow_lister_t, outcome: *wit.controller_outcome_t) !void {
    var threaded: std.Io.Threaded = .init_single_threaded;
    const io = threaded.io();
    const name = key.object.name.ptr[0..key.object.name.len];

    var text: wit.controller_string_t = .{};
    if (!lister.get(&key.kind, &key.object, &text)) return;
    defer text.free();
    const parsed = try std.json.parseFromSlice(Namespace, allocator, text.ptr[0..text.len], .{ .ignore_unknown_fields = true });
    defer parsed.deinit();
    var kind: wit.pintle_controller_types_kind_t = .{ .version = string("v1"), .name = string("ConfigMap") };
    var badge: wit.pintle_controller_types_object_key_t = .{ .namespace_ = string(name), .name = string("badge") };
    defer badge.free();
    var old: wit.controller_string_t = .{};
    if (parsed.value.metadata.deletionTimestamp != null or lister.get(&kind, &badge, &old)) {
        old.free();
        kind.free();
        return;
    }

    var line: [128]u8 = undefined;
    try std.Io.File.stdout().writeStreamingAll(io, try std.fmt.bufPrint(&line, "a badge for {s}\n", .{name}));
    var now: wit.controller_string_t = .{};
    lister.now(&now);
    defer now.free();
    const clock = std.Io.Clock.real.now(io).toMilliseconds();
    var random: [8]u8 = undefined;
    io.random(&random);
    var file: ?[]const u8 = null;
    if (parsed.value.metadata.labels.badge) |wanted| {
        if (std.mem.eql(u8, wanted, "exit")) std.process.exit(3);
        if (std.mem.eql(u8, wanted, "file")) {
            file = if (std.Io.Dir.openFileAbsolute(io, "/etc/hostname", .{})) |_| "opened" else |failure| @errorName(failure);
        }
    }
    const object = .{
        .metadata = .{ .name = "badge" },
        .data = .{
            .now = now.ptr[0..now.len],
            .clock = try std.fmt.allocPrint(allocator, "{d}", .{clock}),
            .random = std.fmt.bytesToHex(random, .lower),
            .file = file,
        },
    };
    const json = try std.json.Stringify.valueAlloc(allocator, object, .{ .emit_null_optional_fields = false });
    const mutations = try allocator.alloc(wit.pintle_controller_types_mutation_t, 1);
    mutations[0] = .{ .action = .{
        .tag = wit.PINTLE_CONTROLLER_TYPES_ACTION_CREATE,
        .val = .{ .create = .{ .kind = kind, .namespace_ = string(name), .object = .{ .ptr = json.ptr, .len = json.len } } },
    } };
    const steps = try allocator.alloc(wit.pintle_controller_types_step_t, 1);
    steps[0] = .{ .order = wit.PINTLE_CONTROLLER_TYPES_ORDER_SEQUENTIAL, .mutations = .{ .ptr = mutations.ptr, .len = 1 } };
    outcome.steps = .{ .ptr = steps.ptr, .len = 1 };
}

/// A copy, which belongs to the bindings.
fn string(text: []const u8) wit.controller_string_t {
    var copy: wit.controller_string_t = .{};
    wit.controller_string_dup_n(&copy, text.ptr, text.len);
    return copy;
}
